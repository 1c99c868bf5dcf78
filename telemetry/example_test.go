package telemetry_test

import (
	"context"
	"fmt"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/telemetry"
)

// pong answers every message with pong.
type pong struct{ a2a.Service }

func (pong) SendMessage(context.Context, *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	return &a2a.Message{MessageID: "2", Role: a2a.RoleAgent, Parts: []*a2a.Part{a2a.TextPart("pong")}}, nil
}

// A program chooses where its spans go; here it keeps them.
func Example() {
	spans := tracetest.NewInMemoryExporter()
	opts := telemetry.Options{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))}

	service := telemetry.Service(pong{}, opts)
	_, err := service.SendMessage(context.Background(), &a2a.SendMessageRequest{
		Message: &a2a.Message{MessageID: "1", Role: a2a.RoleUser, Parts: []*a2a.Part{a2a.TextPart("ping")}},
	})
	if err != nil {
		fmt.Println(err)
	}
	for _, span := range spans.GetSpans() {
		fmt.Println(span.Name, span.SpanKind)
		for _, a := range span.Attributes {
			fmt.Println(a.Key, a.Value.String())
		}
	}
	// Output:
	// SendMessage server
	// a2a.operation SendMessage
	// a2a.binding none
	// a2a.outcome ok
}
