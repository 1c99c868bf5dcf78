package approval_test

import (
	"context"
	"fmt"

	"github.com/parley-a2a/parley"
	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
	"github.com/parley-a2a/parley/approval"
	"github.com/parley-a2a/parley/extension"
)

func Example() {
	deployer := agent.Func(func(ctx context.Context, r *agent.Request, u *agent.Updater) error {
		a, err := approval.Ask(ctx, r, u, approval.Request{
			Resource: "production", Scopes: []string{"deploy", "restart"}, Audience: "deployer",
		})
		if err != nil {
			return err
		}
		if a.Decision != approval.Approved {
			return u.Reject(a2a.TextPart("Not without an approval."))
		}
		return u.Complete(a2a.TextPart(fmt.Sprint("Done: ", a.Scopes)))
	})
	host, err := parley.New(parley.Config{
		Name: "Deployer", Extensions: []*a2a.AgentExtension{extension.Declaration(extension.Approval)},
	}, deployer)
	if err != nil {
		panic(err)
	}
	defer host.Shutdown(context.Background())

	// A client of any binding, which declares the extension, is the same.
	ctx := a2a.WithCallInfo(context.Background(), &a2a.CallInfo{Extensions: []string{extension.Approval}})
	send := func(req *a2a.SendMessageRequest) *a2a.Task {
		res, err := host.Service().SendMessage(ctx, req)
		if err != nil {
			panic(err)
		}
		return res.(*a2a.Task)
	}
	task := send(&a2a.SendMessageRequest{Message: &a2a.Message{
		MessageID: "m1", Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart("Deploy it")},
	}})
	q := approval.Pending(task)
	fmt.Println(task.Status.State, q.Scopes, "on", q.Resource)
	answer, err := approval.Approve(task, "deploy")
	if err != nil {
		panic(err)
	}
	fmt.Println(send(answer).Status.Message.Text())
	// Output:
	// TASK_STATE_AUTH_REQUIRED [deploy restart] on production
	// Done: [deploy]
}
