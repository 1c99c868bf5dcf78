package grpc

import (
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"testing"
	"time"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/op"
)

// The benchmarks run beside the same exchange between a server and a client of generated code alone, which
// make the same messages: the ratio is what this package costs.

const streamLength = 100

func benchMessage(role a2a.Role) *a2a.Message {
	return &a2a.Message{
		MessageID: "0197a1f2-3a4b-7c5d-8e6f-001122334455", ContextID: "context", TaskID: "task", Role: role,
		Parts: []*a2a.Part{a2a.TextPart(strings.Repeat("A sentence of some length. ", 8))},
	}
}

func benchTask() *a2a.Task {
	return &a2a.Task{
		ID: "task", ContextID: "context",
		Status:    a2a.TaskStatus{State: a2a.TaskStateCompleted, Timestamp: time.UnixMilli(1_700_000_000_000)},
		Artifacts: []*a2a.Artifact{{ArtifactID: "artifact", Parts: benchMessage(a2a.RoleAgent).Parts}},
		History:   []*a2a.Message{benchMessage(a2a.RoleUser), benchMessage(a2a.RoleAgent)},
	}
}

func benchEvent() *a2a.TaskArtifactUpdateEvent {
	return &a2a.TaskArtifactUpdateEvent{
		TaskID: "task", ContextID: "context", Append: true,
		Artifact: &a2a.Artifact{ArtifactID: "artifact", Parts: benchMessage(a2a.RoleAgent).Parts},
	}
}

// plain does with generated code what the benchmarks do with this package.
type plain struct {
	pb.UnimplementedA2AServiceServer
}

func plainParts() []*pb.Part {
	return []*pb.Part{{Content: &pb.Part_Text{Text: strings.Repeat("A sentence of some length. ", 8)}}}
}

func plainMessage(role pb.Role) *pb.Message {
	return &pb.Message{
		MessageId: "0197a1f2-3a4b-7c5d-8e6f-001122334455", ContextId: "context", TaskId: "task", Role: role, Parts: plainParts(),
	}
}

func (plain) SendMessage(context.Context, *pb.SendMessageRequest) (*pb.SendMessageResponse, error) {
	return &pb.SendMessageResponse{Payload: &pb.SendMessageResponse_Task{Task: &pb.Task{
		Id: "task", ContextId: "context",
		Status: &pb.TaskStatus{
			State: pb.TaskState_TASK_STATE_COMPLETED, Timestamp: timestamppb.New(time.UnixMilli(1_700_000_000_000)),
		},
		Artifacts: []*pb.Artifact{{ArtifactId: "artifact", Parts: plainParts()}},
		History:   []*pb.Message{plainMessage(pb.Role_ROLE_USER), plainMessage(pb.Role_ROLE_AGENT)},
	}}}, nil
}

func (plain) SubscribeToTask(_ *pb.SubscribeToTaskRequest, s grpc.ServerStreamingServer[pb.StreamResponse]) error {
	for range streamLength {
		err := s.Send(&pb.StreamResponse{Payload: &pb.StreamResponse_ArtifactUpdate{
			ArtifactUpdate: &pb.TaskArtifactUpdateEvent{
				TaskId: "task", ContextId: "context", Append: true,
				Artifact: &pb.Artifact{ArtifactId: "artifact", Parts: plainParts()},
			},
		}})
		if err != nil {
			return err
		}
	}
	return nil
}

func plainClient(b *testing.B) (context.Context, pb.A2AServiceClient) {
	addr := serve(b, func(r grpc.ServiceRegistrar) { pb.RegisterA2AServiceServer(r, plain{}) })
	return metadata.AppendToOutgoingContext(b.Context(), "a2a-version", "1.0"), pb.NewA2AServiceClient(dial(b, addr))
}

func BenchmarkSendMessage(b *testing.B) {
	b.Run("parley", func(b *testing.B) {
		svc := NewClient(connect(b, &fake{call: func(context.Context, op.Message) (any, error) {
			return benchTask(), nil
		}}, HandlerOptions{}))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := svc.SendMessage(b.Context(), &a2a.SendMessageRequest{Message: benchMessage(a2a.RoleUser)}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("generated", func(b *testing.B) {
		ctx, client := plainClient(b)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := client.SendMessage(ctx, &pb.SendMessageRequest{Message: plainMessage(pb.Role_ROLE_USER)}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// A stream of 100 events: "parley" encodes each for its only reader, "shared" finds them encoded by another.
func BenchmarkStream(b *testing.B) {
	run := func(b *testing.B, stream func(yield func(a2a.Entry, error) bool)) {
		svc := NewClient(connect(b, &fake{
			stream: func(context.Context, op.Message) iter.Seq2[a2a.Entry, error] { return stream },
		}, HandlerOptions{}))
		b.ReportAllocs()
		for b.Loop() {
			n := 0
			for _, err := range svc.SubscribeToTask(b.Context(), &a2a.SubscribeToTaskRequest{ID: "task"}) {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
			if n != streamLength {
				b.Fatal(n)
			}
		}
	}
	b.Run("parley", func(b *testing.B) {
		run(b, func(yield func(a2a.Entry, error) bool) {
			for i := range int64(streamLength) {
				if !yield(a2a.NewEntry(i+1, benchEvent()), nil) {
					return
				}
			}
		})
	})
	b.Run("shared", func(b *testing.B) {
		var log [streamLength]a2a.Entry
		for i := range log {
			log[i] = a2a.NewEntry(int64(i+1), benchEvent())
		}
		run(b, func(yield func(a2a.Entry, error) bool) {
			for _, e := range log {
				if !yield(e, nil) {
					return
				}
			}
		})
	})
	b.Run("generated", func(b *testing.B) {
		ctx, client := plainClient(b)
		b.ReportAllocs()
		for b.Loop() {
			s, err := client.SubscribeToTask(ctx, &pb.SubscribeToTaskRequest{Id: "task"})
			for n := 0; err == nil; n++ {
				if _, err = s.Recv(); errors.Is(err, io.EOF) && n != streamLength {
					b.Fatal(n)
				}
			}
			if !errors.Is(err, io.EOF) {
				b.Fatal(err)
			}
		}
	})
}
