package cli

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/parley-a2a/parley/internal/natshints"
	"github.com/parley-a2a/parley/push"
	"github.com/parley-a2a/parley/taskstore"
	"github.com/parley-a2a/parley/taskstore/postgres"
	"github.com/parley-a2a/parley/taskstore/sqlite"
)

// durabilities are the values of --durability.
var durabilities = map[string]sqlite.Durability{"full": sqlite.Full, "normal": sqlite.Normal}

// storeRef is where tasks are kept, as --store names it.
type storeRef struct {
	url      string // without a password
	path     string // of the database's file; empty: there is none
	database string // PostgreSQL's URL, with what it holds of secrets
	hints    string // NATS' URL, likewise; empty: the database carries the hints
}

// parseStore reads --store. An empty one is the file of the agent in the state directory.
func parseStore(text, agent string) (storeRef, error) {
	scheme, path, _ := strings.Cut(text, ":")
	switch {
	case scheme == "postgres" || scheme == "postgresql":
		shown, err := withoutSecrets(text)
		return storeRef{url: shown, database: text}, err
	case text == "memory:":
		return storeRef{url: text}, nil
	case text == "":
		dir, err := stateDir()
		if err != nil {
			return storeRef{}, err
		}
		path = filepath.Join(dir, agent+".db")
	case scheme != "sqlite" || path == "":
		if strings.Contains(text, "://") { // a misspelled scheme: what is behind it may be a password
			text = scheme + "://…"
		}
		return storeRef{}, usage("--store %q: want sqlite:PATH, postgres://USER@HOST/DATABASE for several hosts, or memory: for tasks that end with the process", text)
	}
	path = strings.TrimPrefix(path, "//")
	return storeRef{url: "sqlite:" + path, path: path}, nil
}

// withoutSecrets returns a URL as others may read it.
func withoutSecrets(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil { // its words repeat the URL
		return "", usage("--store: the URL cannot be read: want postgres://USER@HOST:PORT/DATABASE, with the special characters of a password as %%XX")
	}
	q := u.Query()
	for name := range q {
		if strings.Contains(name, "pass") {
			q.Del(name)
		}
	}
	u.RawQuery = q.Encode()
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	return u.String(), nil
}

// stateDir is where parley keeps what must last (XDG Base Directory Specification).
func stateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "parley"), nil
	}
	if runtime.GOOS == "windows" {
		dir, err := os.UserCacheDir()
		return filepath.Join(dir, "parley"), err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", usage("nobody says where tasks are to be kept: set HOME or XDG_STATE_HOME, or name a file with --store sqlite:PATH (%s)", err.Error())
	}
	return filepath.Join(home, ".local", "state", "parley"), nil
}

// open opens the store.
func (r storeRef) open(ctx context.Context, durability sqlite.Durability, log *slog.Logger) (taskstore.Store, error) {
	switch {
	case r.database != "":
		return r.openDatabase(ctx, log)
	case r.hints != "":
		return nil, usage("--hints: only hosts that share a database (--store postgres://…) tell each other")
	case r.path == "":
		return taskstore.NewMemory(taskstore.MemoryOptions{}), nil
	}
	s, err := sqlite.Open(ctx, r.path, sqlite.Options{Durability: durability, Log: log})
	if err != nil {
		return nil, explainStore(err)
	}
	return s, nil
}

func (r storeRef) openDatabase(ctx context.Context, log *slog.Logger) (*database, error) {
	d := new(database)
	opts := postgres.Options{Log: log}
	if r.hints != "" {
		hints, err := natshints.Dial(r.hints, log)
		if err != nil {
			return nil, usage("--hints: %s", err.Error())
		}
		d.hints, opts.Hints = hints, hints
	}
	var err error
	if d.Store, err = postgres.Open(ctx, r.database, opts); err != nil {
		d.closeHints()
		return nil, explainStore(err)
	}
	return d, nil
}

// database is a store in PostgreSQL with what carries its hints.
type database struct {
	*postgres.Store
	hints *natshints.Hints // nil: the database does
}

// Close ends the store.
func (d *database) Close() error {
	defer d.closeHints()
	return d.Store.Close()
}

func (d *database) closeHints() {
	if d.hints != nil {
		d.hints.Close()
	}
}

// signingKey returns the key that signs webhooks, nil for a store that ends with the process. It is kept beside the
// tasks: in a file of its own, or in the database, so that all hosts have the same.
func (r storeRef) signingKey(ctx context.Context, s taskstore.Store) (ed25519.PrivateKey, error) {
	if path := r.beside(".webhook-key"); path != "" {
		return push.KeyFile(path)
	}
	d, ok := taskstore.As[*database](s)
	if !ok {
		return nil, nil
	}
	_, fresh, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	key, err := d.Secret(ctx, "webhook-key", fresh.Seed())
	if err != nil {
		return nil, explainStore(err)
	}
	if len(key) != ed25519.SeedSize {
		return nil, fail(errInternal, "", "%s: the key that signs webhooks is damaged (table secrets)", r.url)
	}
	return ed25519.NewKeyFromSeed(key), nil
}

// explainStore makes a failure of what is wrong with a database.
func explainStore(err error) error {
	message := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "taskstore/sqlite: "), "taskstore/postgres: ")
	return fail(errInternal, "", "%s", message)
}

// beside returns the name of a file that belongs to the store, such as its key; empty for one that is no file.
func (r storeRef) beside(suffix string) string {
	if r.path == "" {
		return ""
	}
	return strings.TrimSuffix(r.path, filepath.Ext(r.path)) + suffix
}
