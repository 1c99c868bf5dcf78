//go:build unix

package crash

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/pgtest"
	"github.com/parley-a2a/parley/taskstore/postgres"
)

// clusterEnv is how often the nodes of TestCluster are shaken; without it the tests of several nodes do not run.
const clusterEnv = "CLUSTER_ROUNDS"

const (
	// noticed is how long it may take until other nodes have settled what one left that was killed.
	noticed = 15 * time.Second
	// members is how many nodes there are.
	members = 3
)

// database is the PostgreSQL server of these tests; it is started by the first that needs it.
var database struct {
	once   sync.Once
	server *pgtest.Server
	err    error
}

func init() {
	atEnd = append(atEnd, func() {
		if database.server != nil {
			database.server.Stop()
		}
	})
}

// cluster is some nodes on one database behind a balancer.
type cluster struct {
	t          *testing.T
	pg         *pgtest.Server
	url        string
	nodes      []*host
	http, grpc *balancer
}

func newCluster(t *testing.T, n int, more ...string) *cluster {
	t.Helper()
	database.once.Do(func() { database.server, database.err = pgtest.Start(context.Background()) })
	switch {
	case database.err != nil:
		t.Fatal(database.err)
	case database.server == nil:
		t.Skip(pgtest.Missing + ": several nodes were not tested")
	}
	c := &cluster{t: t, pg: database.server}
	c.url = c.pg.URL(c.pg.Dir, c.pg.Database(t, "template0"))
	var http, grpc []string
	for range n {
		h := newHostOn(t, c.url)
		c.nodes, http, grpc = append(c.nodes, h), append(http, h.http), append(grpc, h.grpc)
	}
	c.http, c.grpc = newBalancer(t, false, http...), newBalancer(t, true, grpc...)
	for i, h := range c.nodes {
		h.more = append([]string{"-public-url", "http://" + c.http.addr, "-public-grpc-url", c.grpc.addr, "-grace", "5s"}, more...)
		if i == n-1 {
			h.more = append(h.more, "-skew", "1m")
		}
		h.start()
	}
	return c
}

func (c *cluster) dial() map[string]clients { return dial(c.t, c.http.addr) }

// number returns what a query counts.
func (c *cluster) number(sql string) (n int) {
	c.t.Helper()
	ctx := context.WithoutCancel(c.t.Context())
	conn, err := pgx.Connect(ctx, c.url)
	if err == nil {
		defer conn.Close(ctx)
		err = conn.QueryRow(ctx, sql).Scan(&n)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

// orphans are tasks and webhooks that a node has which is gone.
const orphans = `SELECT (SELECT count(*) FROM tasks t WHERE node <> '' AND NOT EXISTS
		(SELECT 1 FROM nodes n WHERE n.node = t.node AND n.expires_at > clock_timestamp()))
	+ (SELECT count(*) FROM webhooks w WHERE NOT done AND NOT EXISTS
		(SELECT 1 FROM nodes n WHERE n.node = w.node AND n.expires_at > clock_timestamp()))`

// alive are the nodes: two for each process, one of which delivers webhooks.
const alive = "SELECT count(*) FROM nodes WHERE expires_at > clock_timestamp()"

// begunTwice are the turns whose run was recorded more than once: a run begins with WORKING and no words, and a turn after
// the first rides with that record.
const begunTwice = `SELECT count(*) FROM (SELECT tid FROM log WHERE kind & 15 = 2 AND turn IS NULL
	AND position('TASK_STATE_WORKING' in convert_from(event, 'UTF8')) > 0 AND position('"message"' in convert_from(event, 'UTF8')) = 0
	GROUP BY tid HAVING count(*) > 1) t`

// settled waits until nothing is left of nodes that are gone, and reports how long that took.
func (c *cluster) settled(r *report, since time.Time) {
	c.t.Helper()
	left := 0
	if !waitFor(c.t.Context(), time.Until(since.Add(noticed)), func() bool {
		left = c.number(orphans)
		return left == 0 && c.number(alive) <= 2*(members-1)
	}) {
		r.wrong(&r.zombies, left, "%v after a node was killed, the others have not settled %d of its tasks and webhooks", noticed, left)
		return
	}
	r.slowest = max(r.slowest, time.Since(since))
}

// restartPG kills the database and starts it again. Where that takes so long that nodes are lost, as on a busy machine,
// it waits until they have joined anew.
func (c *cluster) restartPG() {
	begun := time.Now()
	if err := c.pg.Kill(); err != nil {
		c.t.Error(err)
	}
	// The processes of its connections notice a little later; until then it does not start.
	if !waitFor(c.t.Context(), time.Minute, func() bool { return c.pg.Ctl(c.t.Context(), "start") == nil }) {
		c.t.Fatal("PostgreSQL does not start again")
	}
	if time.Since(begun) > 4*time.Second {
		<-time.After(8 * time.Second)
	}
}

// restart kills a node and starts it again after a while.
func (c *cluster) restart(l *load, h *host, pause time.Duration) {
	l.shake(h.kill)
	<-time.After(pause)
	h.start()
}

// round loads the nodes, kills some of them and the database at random moments, and audits.
func (c *cluster) round(b *book, rng *rand.Rand, end bool) {
	c.t.Helper()
	before := c.dial()
	defer hangUp(before)
	l := &load{book: b, things: things, shared: true}
	l.start(c.t.Context(), before, rng.Uint64())
	moment := func(most time.Duration) time.Duration {
		return 100*time.Millisecond + time.Duration(rng.Int64N(int64(most)))
	}
	for _, what := range rng.Perm(members + 1) {
		<-time.After(moment(1500 * time.Millisecond))
		if what < members {
			c.restart(l, c.nodes[what], moment(time.Second))
		} else {
			l.shake(c.restartPG)
		}
		b.report.rounds++
	}
	<-time.After(moment(time.Second))

	// One is gone for good: the others settle what it has. They end in order, so that nothing of the round is left.
	l.killed.Store(true)
	first := rng.IntN(members)
	c.nodes[first].kill()
	killed := time.Now()
	l.workers.Wait()
	c.settled(b.report, killed)
	for i := range members {
		if i != first {
			c.nodes[i].stop()
		}
		c.nodes[i].start()
	}
	if l.cut.Load() > 0 {
		b.report.hits++
	}
	c.audit(b, rng, end)
}

func (c *cluster) audit(b *book, rng *rand.Rand, end bool) {
	c.t.Helper()
	after := c.dial()
	defer hangUp(after)
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	a := newAudit(ctx, b, after, rng.Uint64())
	a.late = 30 * time.Second
	a.zombies(time.Now(), settling)
	a.run(end)
	if ctx.Err() != nil {
		c.t.Fatalf("the audit took too long: %v\n%s", b.report, strings.Join(b.report.words, "\n"))
	}
}

// roll replaces the nodes one after the other while callers go on: none of their calls fails.
func (c *cluster) roll(b *book, rng *rand.Rand) {
	c.t.Helper()
	cs := c.dial()
	defer hangUp(cs)
	l := &load{book: b, things: gentle, shared: true}
	l.start(c.t.Context(), cs, rng.Uint64())
	for _, h := range c.nodes {
		c.http.leaveOut(h.http, true)
		c.grpc.leaveOut(h.grpc, true)
		<-time.After(200 * time.Millisecond) // calls that were on their way
		h.stop()
		h.start()
		c.http.leaveOut(h.http, false)
		c.grpc.leaveOut(h.grpc, false)
	}
	l.killed.Store(true)
	l.workers.Wait()
	if n := l.cut.Load(); n > 0 {
		b.report.wrong(&b.report.unexpected, int(n), "%d calls failed while the nodes were replaced", n)
	}
}

// check looks into the database when all is over.
func (c *cluster) check(r *report) {
	c.t.Helper()
	s, err := postgres.Open(c.t.Context(), c.url, postgres.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		c.t.Fatal(err)
	}
	defer s.Close()
	wrong, err := s.Check(c.t.Context(), nil)
	if err != nil || len(wrong) > 0 {
		c.t.Errorf("Check: %v, %q", err, wrong)
	}
	if n := c.number(begunTwice); n > 0 {
		r.wrong(&r.duplicates, n, "%d runs were recorded twice", n)
	}
}

func clusterRounds(t *testing.T) int {
	t.Helper()
	if os.Getenv(clusterEnv) == "" {
		t.Skip("make cluster-test runs it: it takes minutes (" + clusterEnv + ")")
	}
	return fromEnv(t, clusterEnv, 1, strconv.Atoi)
}

// TestCluster shakes three nodes under load, of which one has a clock that is a minute ahead and all lose hints, and finds
// nothing lost, nothing twice, and no task that nobody is at work on. Then it replaces them without a failed call.
func TestCluster(t *testing.T) {
	rounds := clusterRounds(t)
	seed := fromEnv(t, seedEnv, rand.Uint64(), parseSeed)
	rng := rand.New(rand.NewPCG(seed, 0))
	r := &report{seed: seed, acknowledged: map[string]int{}}
	b := newBook(newReceiver(t, ""), r)
	c := newCluster(t, members, "-drop", "30")
	for n := 0; n < rounds && !r.bad(); n++ {
		c.round(b, rng, n == rounds-1)
	}
	c.roll(b, rng)
	c.audit(b, rng, true)
	c.check(r)
	t.Logf("%v\nwhat a killed node left was settled within %v", r, r.slowest.Round(100*time.Millisecond))
	if r.bad() {
		t.Errorf("after %d kills:\n%s", r.rounds, strings.Join(r.words, "\n"))
	}
	if r.hits == 0 || len(r.acknowledged) < 8 {
		t.Error("the load was no load")
	}
}

// TestClusterFindsDeaf is the test of the test: nodes that rely on hints alone have callers wait for ever, others do not.
func TestClusterFindsDeaf(t *testing.T) {
	clusterRounds(t)
	t.Parallel()
	for _, fault := range []string{"", "deaf"} {
		t.Run("fault "+fault, func(t *testing.T) {
			b := newBook(newReceiver(t, ""), &report{acknowledged: map[string]int{}})
			c := newCluster(t, members, "-drop", "30", "-fault", fault)
			cs := c.dial()
			defer hangUp(cs)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			l := &load{book: b, things: gentle, shared: true}
			l.start(ctx, cs, 1)
			<-time.After(4 * time.Second)
			l.killed.Store(true) // each does one thing more, for which polling needs a second or two
			time.AfterFunc(10*time.Second, cancel)
			l.workers.Wait()
			inVain := l.cut.Load()
			t.Logf("%d of %d callers waited in vain", inVain, workers)
			if (inVain > 0) != (fault == "deaf") {
				t.Errorf("with the fault %q", fault)
			}
		})
	}
}

// TestClusterFence stops a node in the middle of a run, lets another run it again, and wakes the first: what it still
// says is refused. Without the fence that is found out.
func TestClusterFence(t *testing.T) {
	clusterRounds(t)
	t.Parallel()
	for _, fault := range []string{"", "unfenced"} {
		t.Run("fault "+fault, func(t *testing.T) {
			t.Parallel()
			whole := fenced(t, fault)
			for tries := 1; fault != "" && whole && tries < 3; tries++ {
				t.Log("the two writers did not meet: again")
				whole = fenced(t, fault)
			}
			if whole != (fault == "") {
				t.Errorf("the task is whole: %v", whole)
			}
		})
	}
}

// fenced has a node sleep while another takes its run over, and wakes it: it reports whether the task came out whole.
func fenced(t *testing.T, fault string) bool {
	t.Helper()
	const chunks = 2500
	c := newCluster(t, 2, "-restartable", "-fault", fault)
	cs := c.dial()
	defer hangUp(cs)
	a, other := c.nodes[0], c.nodes[1]
	c.http.leaveOut(other.http, true)
	b := newBook(nil, &report{acknowledged: map[string]int{}})
	req := b.request(chunked(chunks)...)
	req.Configuration.ReturnImmediately = true
	task, err := result(cs[a2a.BindingJSONRPC].plain.SendMessage(as(t.Context(), "alice", 0), req))
	if err != nil {
		t.Fatal(err)
	}
	grows := func(past int) bool {
		return waitFor(t.Context(), time.Minute, func() bool { return c.number("SELECT coalesce(max(generation), 0) FROM tasks") > past })
	}
	if !grows(100) {
		t.Fatal("the run does not begin")
	}
	if err := a.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	c.http.leaveOut(a.http, true)
	c.http.leaveOut(other.http, false)
	was := c.number("SELECT max(generation) FROM tasks")
	if !grows(was + 50) {
		t.Fatal("nobody runs it again")
	}
	if err := a.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	var end *a2a.Task
	if !waitFor(t.Context(), time.Minute, func() bool {
		end, err = cs[a2a.BindingJSONRPC].plain.GetTask(as(t.Context(), "alice", 0), &a2a.GetTaskRequest{ID: task.ID})
		return err != nil || end.Status.State.Terminal()
	}) || err != nil {
		t.Fatalf("the task does not end: %v", err)
	}
	var words []string
	for _, p := range end.Artifacts[0].Parts {
		words = append(words, string(p.Content.(a2a.Text)))
	}
	return end.Status.State == completed && slices.Equal(words, numbers(chunks))
}

// TestClusterFigures measures in one run: a file against the database, one node against three, and how long it takes from
// a commit on one node to the frame on another.
func TestClusterFigures(t *testing.T) {
	if os.Getenv("CLUSTER_FIGURES") == "" {
		t.Skip("it measures (CLUSTER_FIGURES=1)")
	}
	one, three := newCluster(t, 1), newCluster(t, members)
	file := newHost(t)
	file.start()
	for range 3 {
		t.Logf("SQLite, 1 host:      %s", throughput(t, file.http, "", file))
		t.Logf("PostgreSQL, 1 node:  %s", throughput(t, one.nodes[0].http, one.pg.Data(), one.nodes...))
		t.Logf("PostgreSQL, 3 nodes: %s", throughput(t, three.http.addr, three.pg.Data(), three.nodes...))
	}
	t.Logf("commit on one node to the frame on another: %s", three.latency())
}

// throughput sends tasks with 64 callers for a while.
func throughput(t *testing.T, addr, data string, hosts ...*host) string {
	t.Helper()
	var pids []int
	for _, h := range hosts {
		pids = append(pids, h.cmd.Process.Pid)
	}
	hostsBefore, databaseBefore := cpuOf(pids...), cpuOfDatabase(data)
	card := dial(t, addr)
	defer hangUp(card)
	b := newBook(nil, &report{acknowledged: map[string]int{}})
	var mu sync.Mutex
	var took []time.Duration
	begun := time.Now()
	var all sync.WaitGroup
	for n := range 64 {
		all.Go(func() {
			for time.Since(begun) < 4*time.Second {
				start := time.Now()
				req := b.request()
				if _, err := result(card[a2a.BindingJSONRPC].plain.SendMessage(as(t.Context(), fmt.Sprint("caller", n), 0), req)); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				took = append(took, time.Since(start))
				mu.Unlock()
			}
		})
	}
	all.Wait()
	per := func(d time.Duration) time.Duration { return (d / time.Duration(len(took))).Round(time.Microsecond) }
	return fmt.Sprintf("%5.0f tasks/s, %s; CPU a task: %v of hosts, %v of the database", float64(len(took))/time.Since(begun).Seconds(),
		quantiles(took), per(cpuOf(pids...)-hostsBefore), per(cpuOfDatabase(data)-databaseBefore))
}

// cpuOf is what processes have used, as /proc tells.
func cpuOf(pids ...int) (used time.Duration) {
	for _, pid := range pids {
		_, ticks, _ := procStat(pid)
		used += ticks
	}
	return used
}

// cpuOfDatabase is what the processes of a PostgreSQL server have used.
func cpuOfDatabase(data string) (used time.Duration) {
	b, _ := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	line, _, _ := strings.Cut(string(b), "\n")
	postmaster, err := strconv.Atoi(line)
	if err != nil {
		return 0
	}
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if parent, ticks, ok := procStat(pid); ok && (parent == postmaster || pid == postmaster) {
			used += ticks
		}
	}
	return used
}

func procStat(pid int) (parent int, used time.Duration, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, found := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	if err != nil || !found || len(f) < 13 {
		return 0, 0, false
	}
	parent, _ = strconv.Atoi(f[1])
	for _, ticks := range f[11:13] {
		n, _ := strconv.Atoi(ticks)
		used += time.Duration(n) * 10 * time.Millisecond
	}
	return parent, used, true
}

func quantiles(d []time.Duration) string {
	slices.Sort(d)
	return fmt.Sprintf("p50 %v, p99 %v of %d", d[len(d)/2].Round(100*time.Microsecond), d[len(d)*99/100].Round(100*time.Microsecond), len(d))
}

// latency follows, on the second node, tasks that run on the first.
func (c *cluster) latency() string {
	c.t.Helper()
	from, to := dial(c.t, c.http.addr), dial(c.t, c.http.addr)
	defer hangUp(from)
	defer hangUp(to)
	only := func(i int) {
		for j, h := range c.nodes {
			c.http.leaveOut(h.http, i != j)
		}
	}
	b := newBook(nil, &report{acknowledged: map[string]int{}})
	var took []time.Duration
	for range 200 {
		only(0)
		task, err := result(from[a2a.BindingJSONRPC].plain.SendMessage(as(c.t.Context(), "alice", 0), b.request(step{"park": "which?"})))
		if err != nil {
			c.t.Fatal(err)
		}
		only(1)
		seen, ended := make(chan struct{}), make(chan time.Duration, 1)
		go func() {
			for e, err := range to[a2a.BindingJSONRPC].plain.SubscribeToTask(as(c.t.Context(), "alice", 0), &a2a.SubscribeToTaskRequest{ID: task.ID}) {
				if err != nil {
					c.t.Error(err)
					break
				}
				switch ev := e.Event.(type) {
				case *a2a.Task:
					close(seen)
				case *a2a.TaskStatusUpdateEvent:
					if ev.Status.State.Terminal() {
						ended <- time.Since(ev.Status.Timestamp)
					}
				case *a2a.TaskArtifactUpdateEvent, *a2a.Message:
				}
			}
			close(ended)
		}()
		<-seen
		only(0)
		req := b.request()
		req.Message.TaskID = task.ID
		if _, err := result(from[a2a.BindingJSONRPC].plain.SendMessage(as(c.t.Context(), "alice", 0), req)); err != nil {
			c.t.Fatal(err)
		}
		if d, ok := <-ended; ok {
			took = append(took, d)
		}
	}
	return quantiles(took)
}
