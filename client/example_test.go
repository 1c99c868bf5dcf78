package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/client"
)

// An agent is found by its address, gets a message, and is followed to the end of the task.
func Example() {
	host := serveAgent(echo) // an agent to talk to
	defer host.close()

	ctx := context.Background()
	c, err := client.New(ctx, host.url, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = c.Close() }()

	var task a2a.Task
	for entry, err := range c.Send(ctx, &a2a.SendMessageRequest{Message: &a2a.Message{
		MessageID: "1", Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart("Hello")},
	}}) {
		if err != nil {
			log.Fatal(err)
		}
		if m, ok := entry.Event.(*a2a.Message); ok { // the whole answer: there is no task
			fmt.Println(m.Text())
		}
		task.Apply(entry.Event)
	}
	fmt.Println(task.Status.State)
	for _, artifact := range task.Artifacts {
		fmt.Println(artifact.Text())
	}
	// Output:
	// TASK_STATE_COMPLETED
	// Hello
}
