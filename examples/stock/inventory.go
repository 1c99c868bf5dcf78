package main

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"

	_ "modernc.org/sqlite" // registers the driver
)

var (
	errNoItem = errors.New("no such item") // or none that the partner may see
	errTooFew = errors.New("less is available")
)

// What is in stock where. Consigned goods belong to a partner, and no other one sees them.
const schema = `
CREATE TABLE IF NOT EXISTS stock (
	sku TEXT NOT NULL, warehouse TEXT NOT NULL, partner TEXT NOT NULL DEFAULT '',
	on_hand INTEGER NOT NULL, reserved INTEGER NOT NULL CHECK (reserved BETWEEN 0 AND on_hand),
	PRIMARY KEY (sku, warehouse)
) STRICT;
CREATE TABLE IF NOT EXISTS reservation (
	task TEXT PRIMARY KEY, partner TEXT NOT NULL, sku TEXT NOT NULL, warehouse TEXT NOT NULL, quantity INTEGER NOT NULL
) STRICT;
INSERT OR IGNORE INTO stock VALUES
	('BRG-10422', 'SBY-01', '', 340, 120),
	('BRG-10422', 'JKT-02', '', 15, 0),
	('PMP-20071', 'SBY-01', '', 8, 2),
	('VLV-3300', 'JKT-02', 'globex', 60, 0),
	('MTR-7750', 'DPS-03', '', 4, 1);
`

// visible picks the row of an item, if the partner may see it.
const visible = ` FROM stock WHERE sku = ? AND warehouse = ? AND partner IN ('', ?)`

// inventory is an ERP's inventory, in a file.
type inventory struct{ db *sql.DB }

// level is how much of an item there is in a warehouse.
type level struct {
	SKU       string `json:"sku"`
	Warehouse string `json:"warehouse"`
	OnHand    int    `json:"onHand"`
	Reserved  int    `json:"reserved"`
	Available int    `json:"available"`
}

// reserved is what was reserved for a task.
type reserved struct {
	Reservation string `json:"reservation"` // the task's id
	SKU         string `json:"sku"`
	Warehouse   string `json:"warehouse"`
	Quantity    int    `json:"quantity"`
}

// openInventory opens the inventory at path. A new one has a few goods.
func openInventory(ctx context.Context, path string) (*inventory, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	file := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: url.Values{
		"_pragma": {"busy_timeout(5000)", "journal_mode(wal)", "synchronous(full)"}, "_txlock": {"immediate"},
	}.Encode()}
	db, err := sql.Open("sqlite", file.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // so that nobody waits for a lock that this process has
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &inventory{db}, nil
}

// Close closes the file.
func (i *inventory) Close() error { return i.db.Close() }

// level returns how much of an item a partner can have: errNoItem where there is none for this one.
func (i *inventory) level(ctx context.Context, partner, sku, warehouse string) (*level, error) {
	l := &level{SKU: sku, Warehouse: warehouse}
	err := i.db.QueryRowContext(ctx, `SELECT on_hand, reserved`+visible, sku, warehouse, partner).Scan(&l.OnHand, &l.Reserved)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoItem
	}
	l.Available = l.OnHand - l.Reserved
	return l, err
}

// reservation returns what was reserved for a task, nil if nothing was.
func (i *inventory) reservation(ctx context.Context, task string) (*reserved, error) {
	r := &reserved{Reservation: task}
	err := i.db.QueryRowContext(ctx, `SELECT sku, warehouse, quantity FROM reservation WHERE task = ?`, task).
		Scan(&r.SKU, &r.Warehouse, &r.Quantity)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return r, err
}

// reserve reserves for a task, which it does once: errTooFew where that much is no longer there.
func (i *inventory) reserve(ctx context.Context, task, partner string, o order) (*reserved, error) {
	tx, err := i.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	_, err = tx.ExecContext(ctx, `INSERT INTO reservation VALUES (?, ?, ?, ?, ?)`, task, partner, o.sku, o.warehouse, o.quantity)
	if err != nil {
		return nil, err
	}
	res, err := tx.ExecContext(ctx, `UPDATE stock SET reserved = reserved + ? WHERE rowid = (SELECT rowid`+visible+
		`) AND on_hand - reserved >= ?`, o.quantity, o.sku, o.warehouse, partner, o.quantity)
	if err != nil {
		return nil, err
	}
	if n, err := res.RowsAffected(); n == 0 {
		return nil, errors.Join(err, errTooFew)
	}
	return &reserved{task, o.sku, o.warehouse, o.quantity}, tx.Commit()
}
