// Package crash kills a host in the middle of its work, again and again on the same file, and looks for everything
// that it had acknowledged to real clients on the three bindings.
package crash

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/client"
	"github.com/parley-a2a/parley/extension"
	"github.com/parley-a2a/parley/internal/loopback"
	"github.com/parley-a2a/parley/taskstore/sqlite"
)

// What the environment can set: the number of kills, where the random numbers begin, how long the receiver of
// webhooks is down.
const (
	roundsEnv = "CRASH_ROUNDS"
	seedEnv   = "CRASH_SEED"
	outageEnv = "CRASH_OUTAGE"
)

var bindings = []string{a2a.BindingJSONRPC, a2a.BindingREST, a2a.BindingGRPC}

// program is the host, built once.
var program struct {
	once sync.Once
	dir  string
	err  error
}

// atEnd is called when all tests have ended.
var atEnd []func()

func TestMain(m *testing.M) {
	code := m.Run()
	for _, f := range atEnd {
		f()
	}
	if program.dir != "" {
		os.RemoveAll(program.dir)
	}
	os.Exit(code)
}

func hostProgram(t *testing.T) string {
	t.Helper()
	program.once.Do(func() {
		if program.dir, program.err = os.MkdirTemp("", "crash"); program.err != nil {
			return
		}
		out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program.dir, "./host").CombinedOutput()
		if err != nil {
			program.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if program.err != nil {
		t.Fatal(program.err)
	}
	return filepath.Join(program.dir, "host")
}

// host is a process that can be killed and started again at the same addresses on the same store.
type host struct {
	t          *testing.T
	http, grpc string
	store      string
	more       []string // arguments

	cmd    *exec.Cmd
	stdin  io.Closer
	stderr *bytes.Buffer
}

// newHost returns a host on a file of its own.
func newHost(t *testing.T, more ...string) *host {
	return newHostOn(t, filepath.Join(t.TempDir(), "script.db"), more...)
}

func newHostOn(t *testing.T, store string, more ...string) *host {
	h := &host{t: t, http: loopback.Address(t), grpc: loopback.Address(t), store: store, more: more}
	t.Cleanup(func() {
		if h.cmd != nil {
			h.kill()
		}
	})
	return h
}

// start starts the host and returns when it can be called.
func (h *host) start() {
	h.t.Helper()
	args := []string{"-listen", h.http, "-grpc-listen", h.grpc, "-store", h.store, "-running", strconv.Itoa(running)}
	h.cmd = exec.CommandContext(context.Background(), hostProgram(h.t), append(args, h.more...)...)
	h.stderr = new(bytes.Buffer)
	h.cmd.Stderr = h.stderr
	var err error
	if h.stdin, err = h.cmd.StdinPipe(); err != nil { // it ends with us
		h.t.Fatal(err)
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		h.kill()
		h.t.Fatalf("the host says %q (%v)\n%s", line, err, h.stderr)
	}
}

// kill ends the host as kill -9 does.
func (h *host) kill() {
	_ = h.cmd.Process.Kill()
	h.gone()
}

// stop ends the host in order.
func (h *host) stop() {
	_ = h.stdin.Close()
	h.gone()
}

func (h *host) gone() {
	_ = h.cmd.Wait()
	_ = h.stdin.Close()
	h.cmd = nil
	if h.t.Failed() && h.stderr.Len() > 0 {
		h.t.Logf("the host said:\n%s", h.stderr)
	}
}

// clients are those of one binding.
type clients struct {
	plain  *client.Client // task-log, and nothing is sent again
	secure *client.Client // task-log and safe-retry: what is lost is taken up again
}

// dial returns clients by binding.
func (h *host) dial() map[string]clients {
	h.t.Helper()
	return dial(h.t, h.http)
}

// dial returns clients, by binding, of the agent whose card is at the address.
func dial(t *testing.T, addr string) map[string]clients {
	t.Helper()
	card, err := client.FetchCard(t.Context(), addr, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dial := func(o client.Options) *client.Client {
		c, err := client.Dial(card, o)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	out := map[string]clients{}
	for _, b := range bindings {
		out[b] = clients{
			plain:  dial(client.Options{Transports: []string{b}, OnlyExtensions: true, Extensions: []string{extension.TaskLog}}),
			secure: dial(client.Options{Transports: []string{b}}),
		}
	}
	return out
}

func hangUp(all map[string]clients) {
	for _, c := range all {
		_ = c.plain.Close()
		_ = c.secure.Close()
	}
}

// report is what became of what was acknowledged.
type report struct {
	mu           sync.Mutex
	seed         uint64
	rounds       int
	hits         int // kills that cut calls
	acknowledged map[string]int
	lost         int
	duplicates   int
	zombies      int
	unexpected   int           // calls that failed without a kill
	slowest      time.Duration // until other nodes had settled what one left
	words        []string
}

func (r *report) add(kind string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acknowledged[kind] += n
}

// wrong counts n of what must not be.
func (r *report) wrong(count *int, n int, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*count += n
	if len(r.words) < 20 {
		r.words = append(r.words, fmt.Sprintf("round %d: ", r.rounds)+fmt.Sprintf(format, args...))
	}
}

func (r *report) bad() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost+r.duplicates+r.zombies+r.unexpected > 0
}

func (r *report) String() string {
	var kinds []string
	for _, k := range slices.Sorted(maps.Keys(r.acknowledged)) {
		kinds = append(kinds, fmt.Sprintf("%d %s", r.acknowledged[k], k))
	}
	return fmt.Sprintf("%s=%d: %d kills, %d of them cut calls\nacknowledged: %s\nlost: %d, duplicates: %d, zombies: %d",
		seedEnv, r.seed, r.rounds, r.hits, strings.Join(kinds, ", "), r.lost, r.duplicates, r.zombies)
}

// fromEnv returns what the environment says, or an otherwise.
func fromEnv[T any](t *testing.T, name string, otherwise T, parse func(string) (T, error)) T {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	v, err := parse(s)
	if err != nil {
		t.Fatalf("%s=%q: %v", name, s, err)
	}
	return v
}

func parseSeed(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) }

// TestCrash kills a host under load and finds nothing lost, nothing twice, and no task that nobody is at work on.
func TestCrash(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some seconds")
	}
	t.Parallel()
	seed := fromEnv(t, seedEnv, rand.Uint64(), parseSeed)
	r := try(t, fromEnv(t, roundsEnv, 4, strconv.Atoi), seed, false, (*report).bad)
	t.Log(r)
	if r.rounds > 3 && (r.hits == 0 || len(r.acknowledged) < 8) {
		t.Error("the load was no load")
	}
}

// TestCrashFindsFault is the test of the test: a host that acknowledges new tasks before they are committed is found
// out.
func TestCrashFindsFault(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some seconds")
	}
	t.Parallel()
	const most = 10
	r := try(t, most, fromEnv(t, seedEnv, rand.Uint64(), parseSeed), true, func(r *report) bool { return r.lost > 0 })
	t.Logf("%v\n%s", r, strings.Join(r.words, "\n"))
	if r.lost == 0 {
		t.Errorf("%d kills did not show that tasks were acknowledged too early", most)
	}
}

// try loads and kills a host so many times, or until enough says so, and audits after each kill.
func try(t *testing.T, rounds int, seed uint64, hasty bool, enough func(*report) bool) *report {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	r := &report{seed: seed, acknowledged: map[string]int{}}
	b := newBook(newReceiver(t, ""), r)
	var more []string
	if hasty {
		more = []string{"-fault", "hasty"}
	}
	h := newHost(t, more...)
	h.start()
	for r.rounds < rounds && !enough(r) {
		round(t, h, b, rng, r.rounds == rounds-1)
	}
	if r.bad() && !hasty {
		t.Errorf("after round %d:\n%s", r.rounds, strings.Join(r.words, "\n"))
	}
	h.kill()
	wrong, err := sqlite.Check(context.WithoutCancel(t.Context()), h.store, nil)
	if err != nil || len(wrong) > 0 {
		t.Errorf("Check: %v, %q", err, wrong)
	}
	return r
}

// round loads the host, kills it at some moment, starts it again and audits.
func round(t *testing.T, h *host, b *book, rng *rand.Rand, end bool) {
	t.Helper()
	before := h.dial()
	defer hangUp(before)
	l := newLoad(t.Context(), b, before, rng.Uint64())
	<-time.After(200*time.Millisecond + time.Duration(rng.Int64N(int64(1300*time.Millisecond))))
	l.killed.Store(true)
	h.kill()
	b.report.rounds++
	h.start()
	back := time.Now()

	after := h.dial()
	defer hangUp(after)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	a := newAudit(ctx, b, after, rng.Uint64())
	a.zombies(back, settling)
	l.workers.Wait()
	if l.cut.Load() > 0 {
		b.report.hits++
	}
	a.run(end)
	if ctx.Err() != nil {
		t.Fatalf("the audit took too long: %v\n%s", b.report, strings.Join(b.report.words, "\n"))
	}
}
