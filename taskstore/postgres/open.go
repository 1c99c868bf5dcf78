package postgres

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

const (
	// oldest is the first server that the statements are tested with, as server_version_num has it.
	oldest = 150000
	// migrating is the advisory lock of those who change the schema ("PRLY").
	migrating = 0x50524c59
	// versions is the table of the schema's number. The database may have other programs that use goose.
	versions = "parley_schema"
)

// place names the database without secrets.
func place(cfg *pgx.ConnConfig) string {
	if strings.HasPrefix(cfg.Host, "/") {
		return cfg.Host + "/" + cfg.Database
	}
	return net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port))) + "/" + cfg.Database
}

// migrate brings the schema to that of this version.
func migrate(ctx context.Context, cfg *pgx.ConnConfig, log *slog.Logger) error {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { // the lock ends with the connection
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	var version string
	if err := conn.QueryRow(ctx, "SHOW server_version_num").Scan(&version); err != nil {
		return err
	}
	if v, _ := strconv.Atoi(version); v < oldest {
		return &trouble{place(cfg), ErrOldServer, fmt.Errorf("it is number %s", version)}
	}
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", migrating); err != nil {
		return err
	}
	db := stdlib.OpenDB(*cfg)
	defer func() { _ = db.Close() }()
	list, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, list,
		goose.WithDisableGlobalRegistry(true), goose.WithTableName(versions), goose.WithSlog(log))
	if err != nil {
		return err
	}
	have, newest, err := p.GetVersions(ctx)
	if err != nil {
		return err
	}
	if have > newest {
		return &trouble{place(cfg), ErrNewer, fmt.Errorf("its schema is number %d, this version knows %d", have, newest)}
	}
	_, err = p.Up(ctx)
	return err
}
