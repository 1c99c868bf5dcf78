package cli

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/parley-a2a/parley/taskstore"
	"github.com/parley-a2a/parley/taskstore/sqlite"
)

// durabilities are the values of --durability.
var durabilities = map[string]sqlite.Durability{"full": sqlite.Full, "normal": sqlite.Normal}

// storeRef is where tasks are kept, as --store names it.
type storeRef struct {
	url  string
	path string // of the database; empty: in memory
}

// parseStore reads --store. An empty one is the file of the agent in the state directory.
func parseStore(url, agent string) (storeRef, error) {
	scheme, path, _ := strings.Cut(url, ":")
	switch {
	case url == "memory:":
		return storeRef{url: url}, nil
	case url == "":
		dir, err := stateDir()
		if err != nil {
			return storeRef{}, err
		}
		path = filepath.Join(dir, agent+".db")
	case scheme != "sqlite" || path == "":
		return storeRef{}, usage("--store %q: want sqlite:PATH, or memory: for tasks that end with the process", url)
	}
	path = strings.TrimPrefix(path, "//")
	return storeRef{url: "sqlite:" + path, path: path}, nil
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
	if r.path == "" {
		return taskstore.NewMemory(taskstore.MemoryOptions{}), nil
	}
	s, err := sqlite.Open(ctx, r.path, sqlite.Options{Durability: durability, Log: log})
	if err != nil {
		return nil, explainStore(err)
	}
	return s, nil
}

// explainStore makes a failure of what is wrong with a database.
func explainStore(err error) error {
	message := strings.TrimPrefix(err.Error(), "taskstore/sqlite: ")
	return fail(errInternal, "", "%s", message)
}

// beside returns the name of a file that belongs to the store, such as its key; empty for one in memory.
func (r storeRef) beside(suffix string) string {
	if r.path == "" {
		return ""
	}
	return strings.TrimSuffix(r.path, filepath.Ext(r.path)) + suffix
}
