package push_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/push"
	"github.com/parley-a2a/parley/taskstore"
)

// A client receives what a host delivers. A host makes its Push itself; it stands here to have something to receive.
func Example() {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)) // push.KeyFile makes and keeps a real one

	ended := make(chan struct{})
	receiver, err := push.NewReceiver(func(_ context.Context, taskID string, e a2a.Entry) error {
		switch ev := e.Event.(type) {
		case *a2a.Task:
			fmt.Println(taskID, "is", ev.Status.State)
		case *a2a.TaskStatusUpdateEvent:
			fmt.Println(taskID, "is", ev.Status.State)
			if ev.Status.State.Terminal() {
				close(ended)
			}
		case *a2a.TaskArtifactUpdateEvent, *a2a.Message:
		}
		return nil
	}, push.ReceiverOptions{Keys: []string{push.PublicKey(key)}, Token: "a token of this webhook"})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/hook", receiver)
	srv := httptest.NewServer(http.DefaultServeMux)
	defer srv.Close()

	store := taskstore.NewMemory(taskstore.MemoryOptions{})
	p, err := push.New(push.Options{Store: store, Agent: "greeter", Key: key, AllowPrivate: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	if err := p.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer p.Shutdown(ctx)

	task := taskstore.Key{Scope: taskstore.Scope{Agent: "greeter"}, Task: "t1"}
	hook, err := p.Prepare(ctx, task, &a2a.TaskPushNotificationConfig{URL: srv.URL + "/hook", Token: "a token of this webhook"})
	if err != nil {
		log.Fatal(err)
	}
	working := &a2a.Task{ID: "t1", ContextID: "c1", Status: a2a.TaskStatus{State: a2a.TaskStateWorking, Timestamp: time.Now()}}
	completed := &a2a.TaskStatusUpdateEvent{TaskID: "t1", ContextID: "c1", Status: a2a.TaskStatus{State: a2a.TaskStateCompleted, Timestamp: time.Now()}}
	for _, c := range []taskstore.Change{
		{Key: task, Create: true, Webhook: hook, Records: []taskstore.Record{{Entry: a2a.Entry{Event: working}}}},
		{Key: task, Records: []taskstore.Record{{Entry: a2a.Entry{Event: completed}}}},
	} {
		if _, err := store.Commit(ctx, c); err != nil {
			log.Fatal(err)
		}
	}
	<-ended
	// Output:
	// t1 is TASK_STATE_WORKING
	// t1 is TASK_STATE_COMPLETED
}
