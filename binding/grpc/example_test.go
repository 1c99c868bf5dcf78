package grpc_test

import (
	"context"
	"fmt"
	"log"
	"net"

	googlegrpc "google.golang.org/grpc"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/binding/grpc"
)

// echo is a service that answers a message with its text.
type echo struct{ a2a.Service }

func (echo) SendMessage(_ context.Context, r *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	return &a2a.Message{MessageID: "2", Role: a2a.RoleAgent, Parts: []*a2a.Part{a2a.TextPart(r.Message.Text())}}, nil
}

func Example() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := googlegrpc.NewServer(grpc.ServerOptions()...)
	grpc.NewHandler(echo{}, grpc.HandlerOptions{}).Register(server)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()

	conn, err := grpc.Dial(listener.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	answer, err := grpc.NewClient(conn).SendMessage(context.Background(), &a2a.SendMessageRequest{
		Message: &a2a.Message{MessageID: "1", Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart("hello")}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.(*a2a.Message).Text())
	// Output: hello
}
