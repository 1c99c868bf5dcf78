package jsonrpc_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/binding/jsonrpc"
)

// echo is a service that answers a message with its text.
type echo struct{ a2a.Service }

func (echo) SendMessage(_ context.Context, r *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	return &a2a.Message{MessageID: "2", Role: a2a.RoleAgent, Parts: []*a2a.Part{a2a.TextPart(r.Message.Text())}}, nil
}

func Example() {
	server := httptest.NewServer(jsonrpc.NewHandler(echo{}, jsonrpc.Options{}))
	defer server.Close()

	client := jsonrpc.NewClient(server.URL, jsonrpc.ClientOptions{})
	answer, err := client.SendMessage(context.Background(), &a2a.SendMessageRequest{
		Message: &a2a.Message{MessageID: "1", Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart("hello")}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.(*a2a.Message).Text())
	// Output: hello
}
