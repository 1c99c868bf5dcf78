package agent_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
)

// host is an agent without listeners, called in the same process: what an agent's own tests need.
func host(a agent.Agent) a2a.Service {
	h, err := parley.New(parley.Config{Name: "example", Log: slog.New(slog.DiscardHandler)}, a)
	if err != nil {
		panic(err)
	}
	return h.Service()
}

func say(s a2a.Service, taskID, text string) *a2a.Task {
	res, err := s.SendMessage(context.Background(), &a2a.SendMessageRequest{
		Message: &a2a.Message{MessageID: "m", TaskID: taskID, Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart(text)}},
	})
	if err != nil {
		panic(err)
	}
	return res.(*a2a.Task)
}

// An agent that asks in the middle of its work keeps its place and gets the answer as a value.
func ExampleUpdater_Ask() {
	svc := host(agent.Func(func(ctx context.Context, r *agent.Request, u *agent.Updater) error {
		answer, err := u.Ask(ctx, a2a.TextPart("Which size?"))
		if err != nil {
			return err
		}
		return u.Complete(a2a.TextPart(r.Text() + ", " + answer.Text()))
	}))
	task := say(svc, "", "A shirt")
	fmt.Println(task.Status.State, task.Status.Message.Text())
	fmt.Println(say(svc, task.ID, "large").Status.Message.Text())
	// Output:
	// TASK_STATE_INPUT_REQUIRED Which size?
	// A shirt, large
}

// An agent that parks returns. The answer runs Handle again, after a restart too: what it knows is in the task.
func ExampleUpdater_Park() {
	svc := host(agent.Func(func(_ context.Context, r *agent.Request, u *agent.Updater) error {
		if len(r.Task.History) == 1 {
			return u.Park(a2a.TextPart("Which size?"))
		}
		return u.Complete(a2a.TextPart(r.Task.History[0].Text() + ", " + r.Text()))
	}))
	task := say(svc, "", "A shirt")
	fmt.Println(say(svc, task.ID, "large").Status.Message.Text())
	// Output: A shirt, large
}

// A result that grows is an artifact in chunks. A reader sees each as soon as it is recorded.
func ExampleUpdater_Begin() {
	svc := host(agent.Func(func(_ context.Context, _ *agent.Request, u *agent.Updater) error {
		w := u.Begin("poem")
		for _, line := range []string{"One,\n", "two."} {
			if err := w.WriteText(line); err != nil {
				return err
			}
		}
		return w.Close()
	}))
	fmt.Println(say(svc, "", "x").Artifacts[0].Text())
	// Output:
	// One,
	// two.
}

// The point of no return: after nil no cancel comes any more, and after ErrCanceled the effect must not happen.
func ExampleUpdater_Committed() {
	svc := host(agent.Func(func(_ context.Context, _ *agent.Request, u *agent.Updater) error {
		if err := u.Committed(); errors.Is(err, agent.ErrCanceled) {
			return err
		}
		return u.Complete(a2a.TextPart("paid"))
	}))
	fmt.Println(say(svc, "", "pay").Status.Message.Text())
	// Output: paid
}

// What an agent remembers of a conversation belongs to its context.
func ExampleValues() {
	svc := host(agent.Func(func(_ context.Context, r *agent.Request, u *agent.Updater) error {
		before := r.Values.Get("last")
		if err := r.Values.Set("last", r.Text()); err != nil {
			return err
		}
		return u.Complete(a2a.TextPart(fmt.Sprintf("before: %q", before)))
	}))
	first := say(svc, "", "one")
	res, err := svc.SendMessage(context.Background(), &a2a.SendMessageRequest{Message: &a2a.Message{
		MessageID: "m", ContextID: first.ContextID, Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart("two")},
	}})
	if err != nil {
		panic(err)
	}
	fmt.Println(res.(*a2a.Task).Status.Message.Text())
	// Output: before: "one"
}

// An error whose text the caller may read; what stands behind %w is for the log alone.
func ExampleErrorf() {
	svc := host(agent.Func(func(context.Context, *agent.Request, *agent.Updater) error {
		return agent.Errorf("the printer is out of paper: %w", errors.New("device 4711"))
	}))
	fmt.Println(say(svc, "", "print").Status.Message.Text())
	// Output: the printer is out of paper
}
