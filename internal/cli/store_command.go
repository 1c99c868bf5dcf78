package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/push"
	"github.com/parley-a2a/parley/taskstore"
	"github.com/parley-a2a/parley/taskstore/sqlite"
)

// keptAge is how long finished tasks are kept unless somebody says otherwise.
const keptAge = 720 * time.Hour

func (a *app) storeCommands() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Look after the file or database that keeps an agent's tasks",
		Example: `  parley store stats
  parley store backup revisor-copy.db
  parley store check --store sqlite:revisor-copy.db`,
	}
	cmd.AddCommand(a.storeBackup(), a.storeCheck(), a.storeGC(), a.storeStats())
	return group(cmd)
}

// storeFile is the file that a command is about, and where its words go.
type storeFile struct {
	output
	storeRef
	err    io.Writer
	person bool // somebody watches, see app.person
}

// storeFlags name the file.
type storeFlags struct{ store, agent, output string }

func (f *storeFlags) register(fs *pflag.FlagSet) {
	fs.SortFlags = false
	fs.StringVar(&f.store, "store", "", "sqlite:PATH or postgres://…, as of parley serve (`URL`)")
	fs.StringVar(&f.agent, "agent", "revisor", "instead: the `AGENT` whose file is at the default place")
	fs.StringVarP(&f.output, "output", "o", "text", "`FORMAT`: text or json")
}

func (f *storeFlags) ref(fs *pflag.FlagSet) (storeRef, error) {
	if f.output != "text" && f.output != "json" {
		return storeRef{}, usage("--output %q: the formats are text and json", f.output)
	}
	if f.store != "" && fs.Changed("agent") {
		return storeRef{}, usage("--store and --agent: one of the two names the file")
	}
	if f.store == "" && strings.ContainsAny(f.agent, `/\`) {
		return storeRef{}, usage("--agent %q: want a name; a file is named by --store sqlite:PATH", f.agent)
	}
	ref, err := parseStore(f.store, f.agent)
	if err == nil && ref.path == "" && ref.database == "" {
		err = usage("--store %q: what is in memory only its host can see", f.store)
	}
	return ref, err
}

// onStore makes cmd call run with the file that its flags name and its arguments, of which it wants n.
func (a *app) onStore(cmd *cobra.Command, n int, run func(ctx context.Context, f *storeFile, args []string) error) *cobra.Command {
	flags := new(storeFlags)
	flags.register(cmd.Flags())
	cmd.Args = cobra.ArbitraryArgs // here is who has them
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f, err := a.storeFile(cmd, flags)
		if err == nil && len(args) != n {
			err = usage("%s: want %s, got %d", cmd.CommandPath(), []string{"no argument", "1 argument"}[n], len(args))
		}
		if err != nil {
			return err
		}
		return f.explain(cmd.Context(), run(cmd.Context(), f, args))
	}
	return cmd
}

// storeFile returns the file that the flags of cmd name.
func (a *app) storeFile(cmd *cobra.Command, flags *storeFlags) (*storeFile, error) {
	if err := fromEnvironment(cmd.Flags()); err != nil {
		return nil, err
	}
	ref, err := flags.ref(cmd.Flags())
	if err != nil {
		return nil, err
	}
	a.json = flags.output == "json"
	return &storeFile{output: output{w: a.out, json: a.json}, storeRef: ref, err: a.err, person: a.person()}, nil
}

// explain says what to do about an error of the file.
func (f *storeFile) explain(ctx context.Context, err error) error {
	var told *failure
	switch {
	case err == nil, errors.As(err, &told):
		return err
	case ctx.Err() != nil:
		return fail(errInternal, "", "interrupted")
	case errors.Is(err, fs.ErrNotExist):
		return fail(errInternal, "name the agent with --agent, or the file with --store sqlite:PATH", "%s: no host has kept tasks there", f.path)
	}
	return explainStore(err)
}

// show prints a result: as fields, or as the JSON of v.
func (f *storeFile) show(v any, fields func(t *text)) error {
	if !f.json {
		return f.print(fields)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return f.line(b)
}

func (f *storeFile) note(format string, args ...any) {
	fmt.Fprintln(f.err, visible(fmt.Sprintf(format, args...))) //nolint:errcheck // nobody listens then
}

// progress returns a function that tells a person, once a second at most, how far the work is.
func (f *storeFile) progress() func(format string, args ...any) {
	last := time.Now()
	return func(format string, args ...any) {
		if now := time.Now(); f.person && now.Sub(last) >= time.Second {
			last = now
			f.note(format, args...)
		}
	}
}

// onDatabase calls run with the database that the flags name, which hosts may have in use.
func (f *storeFile) onDatabase(ctx context.Context, run func(s *database) error) (err error) {
	s, err := f.openDatabase(ctx, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer func() {
		if e := s.Close(); err == nil {
			err = e
		}
	}()
	return run(s)
}

// databaseStats is what parley store stats says of a database.
type databaseStats struct {
	Store       string           `json:"store"`
	Tasks       map[string]int64 `json:"tasks"` // by state, in the protocol's words
	Records     int64            `json:"records"`
	Bytes       int64            `json:"databaseBytes"`
	OldestEnded *time.Time       `json:"oldestEnded"`
	Waiting     int64            `json:"webhooksWaiting"`
	Dead        int64            `json:"webhooksDead"`
	Nodes       int64            `json:"nodes"`
}

func (f *storeFile) databaseStats(ctx context.Context, s *database) error {
	got, err := s.Stats(ctx)
	if err != nil {
		return err
	}
	out := databaseStats{
		Store: f.url, Records: got.Records, Bytes: got.Bytes, Waiting: got.Pending, Dead: got.Dead, Nodes: got.Nodes,
	}
	var words string
	out.Tasks, words = countStates(got.Tasks)
	if !got.OldestEnded.IsZero() {
		out.OldestEnded = &got.OldestEnded
	}
	return f.show(out, func(t *text) {
		t.field("Store", out.Store)
		t.field("Tasks", words)
		t.field("Records", fmt.Sprint(out.Records))
		t.field("Database", fmt.Sprintf("%d bytes", out.Bytes))
		if out.OldestEnded != nil {
			t.field("Oldest-Ended", out.OldestEnded.Format(time.RFC3339))
		}
		t.field("Webhooks", fmt.Sprintf("%d with something to deliver, %d given up", out.Waiting, out.Dead))
		t.field("Nodes", fmt.Sprintf("%d alive (an agent counts twice on each host)", out.Nodes))
	})
}

// countStates returns numbers of tasks by the protocol's words for their states, and as a line.
func countStates(tasks map[a2a.TaskState]int64) (byName map[string]int64, line string) {
	byName = map[string]int64{}
	var states []string
	total := int64(0)
	for _, state := range slices.Sorted(maps.Keys(tasks)) {
		byName[state.String()] = tasks[state]
		states = append(states, fmt.Sprintf("%d %s", tasks[state], stateName(state)))
		total += tasks[state]
	}
	return byName, fmt.Sprint(total) + inParentheses(states...)
}

// stats is what parley store stats says.
type stats struct {
	Store       string           `json:"store"`
	Tasks       map[string]int64 `json:"tasks"` // by state, in the protocol's words
	Records     int64            `json:"records"`
	FileBytes   int64            `json:"fileBytes"`
	WALBytes    int64            `json:"walBytes"`
	OldestEnded *time.Time       `json:"oldestEnded"`
	Waiting     int64            `json:"webhooksWaiting"`
	Dead        int64            `json:"webhooksDead"`
	WebhookKey  string           `json:"webhookKey,omitempty"`
}

func (a *app) storeStats() *cobra.Command {
	return a.onStore(&cobra.Command{
		Use:   "stats",
		Short: "Show what is in the file, and the public key of the webhooks",
		Long: `Show what is in the file, and the public key that receivers of the host's
webhooks verify them with. A host may have the file in use.`,
		Example: "  parley store stats --agent echo -o json",
	}, 0, func(ctx context.Context, f *storeFile, _ []string) error { return f.stats(ctx) })
}

func (f *storeFile) stats(ctx context.Context) error {
	if f.database != "" {
		return f.onDatabase(ctx, func(s *database) error { return f.databaseStats(ctx, s) })
	}
	got, err := sqlite.StatsOf(ctx, f.path)
	if err != nil {
		return err
	}
	out := stats{
		Store: f.url, Records: got.Records, FileBytes: got.FileBytes, WALBytes: got.WALBytes,
		Waiting: got.Pending, Dead: got.Dead,
	}
	var words string
	out.Tasks, words = countStates(got.Tasks)
	if !got.OldestEnded.IsZero() {
		out.OldestEnded = &got.OldestEnded
	}
	if out.WebhookKey, err = f.webhookKey(); err != nil {
		f.note("Warning: %s", err.Error())
	}
	return f.show(out, func(t *text) {
		t.field("Store", out.Store)
		t.field("Tasks", words)
		t.field("Records", fmt.Sprint(out.Records))
		t.field("File", fmt.Sprintf("%d bytes", out.FileBytes))
		t.field("WAL", fmt.Sprintf("%d bytes", out.WALBytes))
		if out.OldestEnded != nil {
			t.field("Oldest-Ended", out.OldestEnded.Format(time.RFC3339))
		}
		t.field("Webhooks", fmt.Sprintf("%d with something to deliver, %d given up", out.Waiting, out.Dead))
		t.optional("Webhook-Key", out.WebhookKey)
	})
}

// webhookKey returns the public key of the host's webhooks, "" if it has none yet.
func (f *storeFile) webhookKey() (string, error) {
	path := f.beside(".webhook-key")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	key, err := push.KeyFile(path)
	if err != nil {
		return "", err
	}
	return push.PublicKey(key), nil
}

// checked is what parley store check says.
type checked struct {
	Store    string   `json:"store"`
	Tasks    int      `json:"tasks"`
	Findings []string `json:"findings"`
}

func (a *app) storeCheck() *cobra.Command {
	return a.onStore(&cobra.Command{
		Use:   "check",
		Short: "Read the whole file and say what is wrong with it",
		Long: `Read the whole file and say what is wrong with it: exit code 1 if anything is.
It changes nothing, and a host may have the file in use.`,
		Example: "  parley store check --store sqlite:revisor-copy.db",
	}, 0, func(ctx context.Context, f *storeFile, _ []string) error { return f.check(ctx) })
}

func (f *storeFile) check(ctx context.Context) error {
	out := checked{Store: f.url, Findings: []string{}}
	progress := f.progress()
	var wrong []string
	var err error
	if f.database != "" {
		err = f.onDatabase(ctx, func(s *database) (err error) {
			wrong, err = s.Check(ctx, func(done int) {
				out.Tasks = done
				progress("Checked %d tasks", done)
			})
			return err
		})
	} else {
		wrong, err = sqlite.Check(ctx, f.path, func(done, total int) {
			out.Tasks = done
			progress("Checked %d of %d tasks", done, total)
		})
	}
	if err != nil {
		return err
	}
	out.Findings = append(out.Findings, wrong...)
	err = f.show(out, func(t *text) {
		t.field("Store", out.Store)
		t.field("Tasks", fmt.Sprint(out.Tasks))
		for _, what := range wrong {
			t.field("Finding", what)
		}
		t.field("Findings", fmt.Sprint(len(wrong)))
	})
	if err != nil || len(wrong) == 0 {
		return err
	}
	advice := "go on with a copy that parley store backup made, or with an empty file"
	if f.database != "" {
		advice = "restore the database from a backup"
	}
	e := fail(errInternal, advice, "%s is damaged", cmp.Or(f.path, f.url))
	e.told = true
	return e
}

// copied is what parley store backup says.
type copied struct {
	Store string `json:"store"`
	Copy  string `json:"copy"`
	Bytes int64  `json:"bytes"`
}

func (a *app) storeBackup() *cobra.Command {
	return a.onStore(&cobra.Command{
		Use:   "backup FILE",
		Short: "Write a checked copy of the tasks into a new file",
		Long: `Write a copy of all tasks, as they are at one moment, into a new file, and check
it. A host may have the file in use. To restore, stop the host and put the copy
in the place of its file; remove the -wal and -shm beside that.`,
		Example: "  parley store backup revisor-copy.db",
	}, 1, func(ctx context.Context, f *storeFile, args []string) error { return f.backup(ctx, args[0]) })
}

func (f *storeFile) backup(ctx context.Context, dest string) error {
	if f.database != "" {
		return usage("%s: a database is copied with PostgreSQL's own pg_dump or pg_basebackup", f.url)
	}
	if dest == "" {
		return usage("FILE is empty: where is the copy to go?")
	}
	if f.person {
		f.note("Copying %s", f.path)
	}
	err := sqlite.Backup(ctx, f.path, dest)
	if errors.Is(err, fs.ErrExist) {
		return fail(errInternal, "name a new file", "%s exists, and was left as it is", dest)
	}
	if err != nil {
		return f.explainCopy(ctx, dest, err)
	}
	info, err := os.Stat(dest)
	if err != nil {
		return err
	}
	if _, err := os.Stat(f.beside(".webhook-key")); err == nil {
		f.note("The key that signs webhooks is not in the copy: keep a copy of %s too.", f.beside(".webhook-key"))
	}
	return f.show(copied{f.url, dest, info.Size()}, func(t *text) {
		t.field("Store", f.url)
		t.field("Copy", fmt.Sprintf("%s (%d bytes)", dest, info.Size()))
	})
}

// explainCopy tells a missing folder of the copy from a missing store.
func (f *storeFile) explainCopy(ctx context.Context, dest string, err error) error {
	if _, missing := os.Stat(f.path); missing == nil && errors.Is(err, fs.ErrNotExist) && ctx.Err() == nil {
		return fail(errInternal, "make the folder first", "%s: there is no such folder", dest)
	}
	return err
}

// collected is what parley store gc says.
type collected struct {
	Store string `json:"store"`
	Tasks int    `json:"tasks"`
}

func (a *app) storeGC() *cobra.Command {
	var retain time.Duration
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Delete old tasks from the file of a host that is stopped",
		Long: `Delete the tasks that ended long ago, with all that belongs to them. It is for
the file of a host that is stopped: a host at work does this by itself every
minute (parley serve --retain). The file does not become smaller, its room is
used again; parley store backup writes a small copy. A database that several
hosts share may be in use.`,
		Example: "  parley store gc --agent revisor --retain 168h",
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().DurationVar(&retain, "retain", keptAge, "how long ago they must have ended; 0s: all that ended (`TIME`)")
	return a.onStore(cmd, 0, func(ctx context.Context, f *storeFile, _ []string) error {
		if retain < 0 {
			return usage("--retain %v: a time cannot be negative", retain)
		}
		return f.gc(ctx, retain)
	})
}

// gcStep is how many tasks are deleted at once.
const gcStep = 200

func (f *storeFile) gc(ctx context.Context, retain time.Duration) (err error) {
	if f.database != "" {
		return f.onDatabase(ctx, func(s *database) error { return f.deleteOld(ctx, s, retain) })
	}
	if _, err := os.Stat(f.path); err != nil { // Open would make it
		return err
	}
	s, err := sqlite.Open(ctx, f.path, sqlite.Options{Log: slog.New(slog.DiscardHandler)})
	if errors.Is(err, sqlite.ErrInUse) {
		return fail(errInternal, "a host deletes what ended longer ago than its --retain by itself, every minute",
			"%s: a host has this file in use", f.path)
	}
	if err != nil {
		return err
	}
	defer func() {
		if e := s.Close(); err == nil {
			err = e
		}
	}()
	return f.deleteOld(ctx, s, retain)
}

func (f *storeFile) deleteOld(ctx context.Context, s taskstore.Store, retain time.Duration) error {
	out := collected{Store: f.url}
	progress := f.progress()
	for before := time.Now().Add(-retain); ; {
		gone, err := s.Expire(ctx, taskstore.Retention{Tasks: before, Limit: gcStep})
		out.Tasks += gone.Tasks
		if err != nil {
			return err
		}
		progress("Deleted %d tasks", out.Tasks)
		if !gone.More {
			break
		}
	}
	return f.show(out, func(t *text) {
		t.field("Store", out.Store)
		t.field("Deleted", fmt.Sprintf("%d tasks", out.Tasks))
	})
}
