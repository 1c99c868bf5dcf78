package parley_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/golden"
)

// Cases that are about many calls at once or a store that is slow, on every binding and real sockets.

// each runs a test on every binding, on a host of its own.
func each(t *testing.T, o hostOptions, f func(t *testing.T, h *host, conn golden.Conn)) {
	t.Helper()
	for _, b := range golden.Bindings {
		t.Run(b, func(t *testing.T) {
			h := startHost(t, o)
			f(t, h, h.dial(t, b))
		})
	}
}

// call runs a unary operation that must succeed and returns the task in its answer.
func call(t *testing.T, conn golden.Conn, op, request string) *a2a.Task {
	t.Helper()
	raw, err := golden.Call(t.Context(), conn, golden.Request{Op: op, JSON: request})
	if err != nil {
		t.Fatalf("%s: %v", op, err)
	}
	return taskOf(t, raw)
}

// taskOf returns the task in an answer, whether it is wrapped or not.
func taskOf(t *testing.T, raw json.RawMessage) *a2a.Task {
	t.Helper()
	var wrapped struct{ Task json.RawMessage }
	if err := json.Unmarshal(raw, &wrapped); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	if wrapped.Task != nil {
		raw = wrapped.Task
	}
	task := new(a2a.Task)
	if err := task.UnmarshalJSON(raw); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return task
}

// immediately returns the JSON of a SendMessageRequest with a script that is not waited for.
func immediately(steps string) string {
	return strings.TrimSuffix(message(steps), "}") + `,"configuration":{"returnImmediately":true}}`
}

// TestCancelRace is case 11: a task that completes and is canceled at the same moment has one end, the same in the
// answer to the cancel, in the stream and in the store.
func TestCancelRace(t *testing.T) {
	n := 170 // 500 on three bindings
	if testing.Short() {
		n = 20
	}
	each(t, hostOptions{}, func(t *testing.T, h *host, conn golden.Conn) {
		ends := map[a2a.TaskState]int{}
		for i := range n {
			gate := fmt.Sprint("gate", i)
			task := call(t, conn, "SendMessage", immediately(`{"wait":"`+gate+`"}`))
			id := `{"id":"` + task.ID + `"}`
			<-h.Reached(gate)

			ctx, cancel := context.WithCancel(t.Context())
			opened := make(chan struct{})
			var states []a2a.TaskState
			var streamErr, cancelErr error
			var wg sync.WaitGroup
			wg.Go(func() {
				first := true
				for raw, err := range conn.Do(ctx, golden.Request{Op: "SubscribeToTask", JSON: id}) {
					if first {
						close(opened)
						first = false
					}
					if err != nil {
						streamErr = err
						break
					}
					if ev, err := a2a.ParseStreamResponse(raw); err != nil {
						streamErr = err
					} else if st, ok := ev.(*a2a.TaskStatusUpdateEvent); ok {
						states = append(states, st.Status.State)
					}
				}
			})
			<-opened
			wg.Go(func() {
				<-time.After(time.Duration(i%8) * 50 * time.Microsecond) // so that either comes first now and then
				h.Open(gate)
			})
			wg.Go(func() {
				_, cancelErr = golden.Call(ctx, conn, golden.Request{Op: "CancelTask", JSON: id})
			})
			wg.Wait()
			cancel()
			end := call(t, conn, "GetTask", id).Status.State
			ends[end]++
			var refused *golden.Error
			wantRefused := end == a2a.TaskStateCompleted
			switch {
			case streamErr != nil || len(states) != 1 || states[0] != end:
				t.Fatalf("round %d: the stream says %v (%v), the store %v", i, states, streamErr, end)
			case wantRefused != (errors.As(cancelErr, &refused) && refused.Reason == "TASK_NOT_CANCELABLE"), !wantRefused && cancelErr != nil:
				t.Fatalf("round %d: the task is %v, the cancel said %v", i, end, cancelErr)
			case end != a2a.TaskStateCompleted && end != a2a.TaskStateCanceled:
				t.Fatalf("round %d: the task ended as %v", i, end)
			}
		}
		t.Logf("ends: %v", ends)
	})
}

// TestParallelCancels is case 12: ten cancels at once and one more all see the CANCELED task.
func TestParallelCancels(t *testing.T) {
	each(t, hostOptions{}, func(t *testing.T, _ *host, conn golden.Conn) {
		task := call(t, conn, "SendMessage", immediately(`{"wait":"never"}`))
		id := `{"id":"` + task.ID + `"}`
		answers := make([]json.RawMessage, 10)
		errs := make([]error, 10)
		var wg sync.WaitGroup
		for i := range answers {
			wg.Go(func() {
				answers[i], errs[i] = golden.Call(t.Context(), conn, golden.Request{Op: "CancelTask", JSON: id})
			})
		}
		wg.Wait()
		last := call(t, conn, "CancelTask", id)
		if last.Status.State != a2a.TaskStateCanceled {
			t.Errorf("the last cancel says %v", last.Status.State)
		}
		for i := range answers {
			if errs[i] != nil {
				t.Errorf("cancel %d: %v", i, errs[i])
			} else if got := taskOf(t, answers[i]); got.Status.State != a2a.TaskStateCanceled || !got.Status.Timestamp.Equal(last.Status.Timestamp) {
				t.Errorf("cancel %d: %s", i, answers[i])
			}
		}
	})
}

// TestSlowStore is case 15: with a store that takes its time the blocking answer has every artifact all the same.
func TestSlowStore(t *testing.T) {
	each(t, hostOptions{}, func(t *testing.T, h *host, conn golden.Conn) {
		h.store.delay = 5 * time.Millisecond
		task := call(t, conn, "SendMessage", message(`{"chunks":{"id":"a","texts":["x"],"times":50}}`))
		if task.Status.State != a2a.TaskStateCompleted || len(task.Artifacts) != 1 || len(task.Artifacts[0].Parts) != 50 {
			t.Errorf("%v with %d artifacts", task.Status.State, len(task.Artifacts))
		}
	})
}

// TestImmediatelyAtOnce is case 17: 100 at once against an agent that says nothing, more than may run: each is
// answered in milliseconds (the bound leaves room for a busy machine), by a task that is not at its end.
func TestImmediatelyAtOnce(t *testing.T) {
	each(t, hostOptions{}, func(t *testing.T, h *host, conn golden.Conn) {
		var wg sync.WaitGroup
		begin := time.Now()
		for range 100 {
			wg.Go(func() {
				raw, err := golden.Call(t.Context(), conn, golden.Request{Op: "SendMessage", JSON: immediately(`{"wait":"gate"}`)})
				if err != nil {
					t.Error(err)
					return
				}
				if s := taskOf(t, raw).Status.State; s != a2a.TaskStateWorking && s != a2a.TaskStateSubmitted {
					t.Errorf("answered as %v", s)
				}
			})
		}
		wg.Wait()
		if d := time.Since(begin); d > 2*time.Second {
			t.Errorf("100 answers took %v", d)
		}
		h.Open("gate")
	})
}

// requests returns for every operation a request about a task of a context.
func requests(task, contextID string) map[string]string {
	id, taskID := `{"id":"`+task+`"}`, `"taskId":"`+task+`"`
	return map[string]string{
		"SendMessage":                      message(`{"references":true}`, taskID),
		"SendStreamingMessage":             message(`{"references":true}`, taskID),
		"GetTask":                          id,
		"ListTasks":                        `{"contextId":"` + contextID + `"}`,
		"CancelTask":                       id,
		"SubscribeToTask":                  id,
		"CreateTaskPushNotificationConfig": `{` + taskID + `,"url":"https://example.org/hook"}`,
		"GetTaskPushNotificationConfig":    `{` + taskID + `,"id":"1"}`,
		"ListTaskPushNotificationConfigs":  `{` + taskID + `}`,
		"DeleteTaskPushNotificationConfig": `{` + taskID + `,"id":"1"}`,
		"GetExtendedAgentCard":             `{}`,
	}
}

// TestForeignTasks is threat B1: whatever operation Bob tries on a task of Alice's, running, parked or finished, the
// reply is that for a task that never was, to the byte but for the id, and no stream shows him a frame.
func TestForeignTasks(t *testing.T) {
	const nowhere = "00000000-0000-7000-8000-000000000000"
	each(t, hostOptions{}, func(t *testing.T, h *host, conn golden.Conn) {
		for state, script := range map[string]string{"running": `{"wait":"gate"}`, "parked": `{"park":"?"}`, "finished": `{"complete":"done"}`} {
			r := golden.Request{Op: "SendMessage", JSON: message(script), Header: as("alice")}
			if state == "running" {
				r.JSON = immediately(script)
			}
			raw, err := golden.Call(t.Context(), conn, r)
			if err != nil {
				t.Fatal(err)
			}
			task := taskOf(t, raw)
			never := requests(nowhere, nowhere)
			for op, request := range requests(task.ID, task.ContextID) {
				got := reply(t, conn, op, request)
				want := reply(t, conn, op, never[op])
				for _, id := range []string{task.ID, task.ContextID} {
					got = strings.ReplaceAll(got, id, nowhere)
				}
				if got != want || strings.HasPrefix(got, "FRAME") {
					t.Errorf("%s of a %s task\ngot  %s\nwant %s", op, state, got, want)
				}
			}
		}
		h.Open("gate")
	})
}

// reply returns all that Bob is told in answer to a request.
func reply(t *testing.T, conn golden.Conn, op, request string) string {
	t.Helper()
	var b strings.Builder
	for raw, err := range conn.Do(t.Context(), golden.Request{Op: op, JSON: request, Header: as("bob")}) {
		switch {
		case err != nil:
			b.WriteString("ERROR " + err.Error())
		case strings.HasPrefix(op, "Subscribe"), strings.Contains(op, "Streaming"):
			return "FRAME " + string(raw) // which is one too many
		default:
			b.Write(raw)
		}
	}
	return golden.Mask(b.String())
}

// TestVersionAbsent is case 33 where nothing is sent at all: that means 0.3, on every operation.
func TestVersionAbsent(t *testing.T) {
	each(t, hostOptions{}, func(t *testing.T, _ *host, conn golden.Conn) {
		for op, request := range requests("x", "x") {
			_, err := golden.Call(t.Context(), conn, golden.Request{Op: op, JSON: request, Header: http.Header{golden.VersionHeader: nil}})
			var refused *golden.Error
			if !errors.As(err, &refused) || refused.Reason != "VERSION_NOT_SUPPORTED" || !strings.Contains(refused.Message, "0.3") {
				t.Errorf("%s: %v", op, err)
			}
		}
	})
}

// TestParkedTasks is the other half of case 40: thousands of parked tasks hold neither goroutines nor descriptors, and of
// memory what their record takes.
func TestParkedTasks(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 500
	}
	h := startHost(t, hostOptions{Parked: 2 * n, Running: 1 << 20})
	conn := h.dial(t, golden.GRPC)
	park := func(n int) {
		const workers = 8
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for range n / workers {
					if _, err := golden.Call(t.Context(), conn, golden.Request{Op: "SendMessage", JSON: message(`{"park":"?"}`)}); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	park(80)
	settle(t)
	goroutines, files, heap := level(t)
	park(n)
	settle(t)
	g2, f2, h2 := level(t)
	each := (int64(h2) - int64(heap)) / int64(n)
	t.Logf("%d tasks parked; goroutines %d → %d, descriptors %d → %d, heap %d → %d MiB, %d bytes for each",
		n, goroutines, g2, files, f2, heap>>20, h2>>20, each)
	if g2 > goroutines+50 || f2 > files+20 || each > 8<<10 {
		t.Error("they hold more than that")
	}
}
