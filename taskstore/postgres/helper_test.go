//go:build unix

package postgres

import (
	"bytes"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/taskstore"
)

var alice = taskstore.Scope{Agent: "echo", Tenant: "t1", Owner: "issuer\x00alice"}

func key(id string) taskstore.Key { return taskstore.Key{Scope: alice, Task: id} }

func newID() string { return uuid.Must(uuid.NewV7()).String() }

func taskRecord(k taskstore.Key, at time.Time) taskstore.Record {
	m := &a2a.Message{MessageID: "m-" + k.Task, TaskID: k.Task, ContextID: "c-" + k.Task, Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart("hi")}}
	return taskstore.Record{Entry: a2a.Entry{Event: &a2a.Task{
		ID: k.Task, ContextID: m.ContextID, History: []*a2a.Message{m},
		Status: a2a.TaskStatus{State: a2a.TaskStateSubmitted, Timestamp: at},
	}}}
}

func statusRecord(k taskstore.Key, state a2a.TaskState, at time.Time) taskstore.Record {
	return taskstore.Record{Entry: a2a.Entry{Event: &a2a.TaskStatusUpdateEvent{
		TaskID: k.Task, ContextID: "c-" + k.Task, Status: a2a.TaskStatus{State: state, Timestamp: at},
	}}}
}

func chunkRecord(k taskstore.Key, text string, more bool) taskstore.Record {
	return taskstore.Record{Entry: a2a.Entry{Event: &a2a.TaskArtifactUpdateEvent{
		TaskID: k.Task, ContextID: "c-" + k.Task, Append: more,
		Artifact: &a2a.Artifact{ArtifactID: "x", Parts: []*a2a.Part{a2a.TextPart(text)}},
	}}}
}

// now is the time as the store keeps it.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

func commit(tb testing.TB, s taskstore.Store, c taskstore.Change) taskstore.Receipt {
	tb.Helper()
	r, err := s.Commit(tb.Context(), c)
	if err != nil {
		tb.Fatalf("Commit: %v", err)
	}
	return r
}

func refused(tb testing.TB, s taskstore.Store, want error, c taskstore.Change) {
	tb.Helper()
	if _, err := s.Commit(tb.Context(), c); !errors.Is(err, want) {
		tb.Errorf("Commit: got %v, want %v", err, want)
	}
}

// begin makes a task that a node holds, in WORKING.
func begin(tb testing.TB, s taskstore.Store, id, node string) taskstore.Receipt {
	tb.Helper()
	k := key(id)
	return commit(tb, s, taskstore.Change{Key: k, Create: true, Claim: node, Records: []taskstore.Record{
		taskRecord(k, now()), statusRecord(k, a2a.TaskStateWorking, now()),
	}})
}

func chunk(id string, epoch int64, text string) taskstore.Change {
	return taskstore.Change{Key: key(id), Epoch: epoch, Records: []taskstore.Record{chunkRecord(key(id), text, true)}}
}

func task(tb testing.TB, s taskstore.Store, id string) taskstore.Snapshot {
	tb.Helper()
	snap, err := s.Task(tb.Context(), key(id), 0)
	if err != nil {
		tb.Fatalf("Task: %v", err)
	}
	return snap
}

func unsettled(tb testing.TB, s taskstore.Store, node string) (ids []string) {
	tb.Helper()
	keys, err := s.Unsettled(tb.Context(), alice.Agent, node, "", 1000)
	if err != nil {
		tb.Fatalf("Unsettled: %v", err)
	}
	for _, k := range keys {
		ids = append(ids, k.Task)
	}
	return ids
}

func join(tb testing.TB, s *Store, node string) <-chan struct{} {
	tb.Helper()
	lost, err := s.Join(tb.Context(), node)
	if err != nil {
		tb.Fatalf("Join: %v", err)
	}
	return lost
}

// counted looks that the counters are as the tasks are.
func counted(tb testing.TB, s *Store) {
	tb.Helper()
	var wrong int
	err := s.pool.QueryRow(tb.Context(), `SELECT count(*) FROM
			(SELECT scope, state, hour, n FROM
				(SELECT scope, state, -2147483648 AS hour, count(*) AS n FROM tasks GROUP BY 1, 2
				UNION ALL SELECT scope, state, floor(status_ms / 3600000.0)::integer, count(*) FROM tasks GROUP BY 1, 2, 3) u) t
		FULL JOIN (SELECT scope, state, hour, sum(n) AS n FROM counters GROUP BY 1, 2, 3 HAVING sum(n) <> 0) c
		USING (scope, state, hour) WHERE t.n IS DISTINCT FROM c.n`).Scan(&wrong)
	if err != nil || wrong > 0 {
		tb.Errorf("%d counters are not as the tasks are, %v", wrong, err)
	}
}

// wire stands between a store and the server, on a socket in a folder of its own.
type wire struct {
	dir, to string
	ln      net.Listener
	mu      sync.Mutex
	conns   []net.Conn
	cut     bool
	eat     []byte // the answer that has this is lost, and its connection is cut
	eaten   chan struct{}
}

func newWire(tb testing.TB, c *cluster) *wire {
	tb.Helper()
	w := &wire{dir: tb.TempDir(), to: filepath.Join(c.Dir, ".s.PGSQL.5432"), eaten: make(chan struct{}, 1)}
	var err error
	if w.ln, err = net.Listen("unix", filepath.Join(w.dir, ".s.PGSQL.5432")); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { w.ln.Close(); w.set(true) })
	go func() {
		for {
			conn, err := w.ln.Accept()
			if err != nil {
				return
			}
			go w.serve(conn)
		}
	}()
	return w
}

// set cuts all connections, and those to come, or lets new ones through.
func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	if cut {
		for _, c := range w.conns {
			c.Close()
		}
		w.conns = nil
	}
}

// lose has the answer lost that has these bytes.
func (w *wire) lose(answer string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.eat = []byte(answer)
}

func (w *wire) serve(client net.Conn) {
	server, err := net.Dial("unix", w.to)
	if err != nil {
		client.Close()
		return
	}
	w.mu.Lock()
	if w.cut {
		client.Close()
		server.Close()
	}
	w.conns = append(w.conns, client, server)
	w.mu.Unlock()
	go w.pass(client, server, false)
	w.pass(server, client, true)
}

func (w *wire) pass(from, to net.Conn, answers bool) {
	defer from.Close()
	defer to.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if answers && w.eats(b[:n]) {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

func (w *wire) eats(b []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.eat == nil || !bytes.Contains(b, w.eat) {
		return false
	}
	w.eat = nil
	w.eaten <- struct{}{}
	return true
}
