package parley_test

import (
	"context"
	"fmt"
	"log"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
)

// The smallest complete agent, on JSON-RPC, REST and gRPC. As a main.go it is examples/greeter.
func Example() {
	greeter := agent.Func(func(_ context.Context, r *agent.Request, u *agent.Updater) error {
		return u.Begin("greeting").Last(a2a.TextPart("Hello, " + r.Text() + "!"))
	})
	if err := parley.ListenAndServe(context.Background(), parley.Config{Name: "greeter"}, greeter); err != nil {
		log.Fatal(err)
	}
}

// A host's operations can be called without a network: Service is the same interface on both ends.
func ExampleHost_Service() {
	greeter := agent.Func(func(_ context.Context, r *agent.Request, u *agent.Updater) error {
		return u.Begin("greeting").Last(a2a.TextPart("Hello, " + r.Text() + "!"))
	})
	host, err := parley.New(parley.Config{Name: "greeter"}, greeter)
	if err != nil {
		log.Fatal(err)
	}
	defer host.Shutdown(context.Background())
	result, err := host.Service().SendMessage(context.Background(), &a2a.SendMessageRequest{Message: &a2a.Message{
		MessageID: "m1", Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart("world")},
	}})
	if err != nil {
		log.Fatal(err)
	}
	task, ok := result.(*a2a.Task)
	fmt.Println(ok, task.Status.State, task.Artifacts[0].Text())
	// Output: true TASK_STATE_COMPLETED Hello, world!
}
