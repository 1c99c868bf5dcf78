package main

import (
	"context"
	"log"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
)

func main() {
	greeter := agent.Func(func(_ context.Context, r *agent.Request, u *agent.Updater) error {
		return u.Begin("greeting").Last(a2a.TextPart("Hello, " + r.Text() + "!"))
	})
	if err := parley.ListenAndServe(context.Background(), parley.Config{Name: "greeter"}, greeter); err != nil {
		log.Fatal(err)
	}
}
