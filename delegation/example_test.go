package delegation_test

import (
	"context"
	"fmt"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/delegation"
)

// Two agents that each think that the other will know do not ask each other for ever.
func Example() {
	other := map[string]a2a.Service{}
	ask := func(name, of string) a2a.Service {
		a := agent.Func(func(ctx context.Context, r *agent.Request, u *agent.Updater) error {
			fmt.Println(name, "asks", of)
			res, err := delegation.Client(other[of], nil).SendMessage(ctx, &a2a.SendMessageRequest{Message: &a2a.Message{
				MessageID: "m1", Role: a2a.RoleUser, Parts: r.Message.Parts,
			}})
			if err != nil {
				return u.Complete(a2a.TextPart(of + " would not: " + err.Error()))
			}
			return u.Complete(res.(*a2a.Task).Status.Message.Parts...)
		})
		host, err := parley.New(parley.Config{Name: name}, delegation.Guard(a, delegation.Options{Self: name}))
		if err != nil {
			panic(err)
		}
		return host.Service()
	}
	other["Ann"], other["Bob"] = ask("Ann", "Bob"), ask("Bob", "Ann")

	res, err := other["Ann"].SendMessage(context.Background(), &a2a.SendMessageRequest{Message: &a2a.Message{
		MessageID: "m1", Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart("What time is it?")},
	}})
	if err != nil {
		panic(err)
	}
	fmt.Println(res.(*a2a.Task).Status.Message.Text())
	// Output:
	// Ann asks Bob
	// Bob asks Ann
	// Ann would not: the message has been with this agent already: the agents it came through hand it on in a circle
}
