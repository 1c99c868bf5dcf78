package limits_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/limits"
)

// A caller who asks too often is told when to come again.
func ExampleService() {
	svc := limits.Service(new(endless), limits.Options{Rate: 1, Burst: 2})
	info := &a2a.CallInfo{Caller: a2a.Caller{Issuer: "https://issuer.example", Subject: "alice"}}
	ctx := a2a.WithCallInfo(context.Background(), info)
	for range 3 {
		_, err := svc.GetTask(ctx, &a2a.GetTaskRequest{ID: "task"})
		var e *a2a.Error
		if errors.As(err, &e) && e.Code == a2a.ErrResourceExhausted {
			fmt.Println(e.Message)
		}
	}
	fmt.Println(info.Reply.Get("RateLimit-Policy"))
	// Output:
	// more than 1 requests a second, or 2 at once, of one caller (limit requests)
	// "requests";q=2;w=2, "streams";q=100;qu="concurrent-requests"
}
