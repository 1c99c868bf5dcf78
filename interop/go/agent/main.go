// Command agent is an agent on the official Go SDK, for parley's client and conformance run: it does what the first word
// of a message says, with the words of "parley demo-server". It prints "agent: URL, grpc ADDR" when it is ready.
package main

import (
	"context"
	"fmt"
	"iter"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/push"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"google.golang.org/grpc"
)

// demo does what the first word of a message says.
type demo struct{}

type yield = func(a2a.Event, error) bool

func (demo) Execute(ctx context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(y yield) {
		words := strings.Fields(textOf(ec.Message))
		word := ""
		if len(words) > 0 {
			word = words[0]
		}
		if ec.StoredTask == nil && (word == "message" || word == "help") {
			y(a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("A message, and no task.")), nil)
			return
		}
		r := run{ctx, ec, y}
		if ec.StoredTask == nil && !y(a2a.NewSubmittedTask(ec, ec.Message), nil) {
			return
		}
		if !r.status(a2a.TaskStateWorking, "") {
			return
		}
		if ec.StoredTask != nil {
			word = "echo"
		}
		if r.say(word, words) {
			r.status(a2a.TaskStateCompleted, "")
		}
	}
}

func (demo) Cancel(_ context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(y yield) { y(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCanceled, nil), nil) }
}

func textOf(m *a2a.Message) string {
	var b strings.Builder
	for _, p := range m.Parts {
		b.WriteString(p.Text() + " ")
	}
	return b.String()
}

// run is one turn of a task.
type run struct {
	ctx context.Context
	ec  *a2asrv.ExecutorContext
	y   yield
}

func (r run) status(state a2a.TaskState, words string) bool {
	var m *a2a.Message
	if words != "" {
		m = a2a.NewMessageForTask(a2a.MessageRoleAgent, r.ec, a2a.NewTextPart(words))
	}
	return r.y(a2a.NewStatusUpdateEvent(r.ec, state, m), nil)
}

func (r run) artifact(name string, parts ...*a2a.Part) bool {
	ev := a2a.NewArtifactEvent(r.ec, parts...)
	ev.Artifact.Name, ev.LastChunk = name, true
	return r.y(ev, nil)
}

// say does what a word says and reports whether the task is then to end as completed.
func (r run) say(word string, words []string) bool {
	data := a2a.NewDataPart(map[string]any{"fruit": "plum", "weights": []any{1, 2.5}})
	data.MediaType = "application/json"
	file := a2a.NewRawPart([]byte("fruit,weight\nplum,2.5\n"))
	file.Filename, file.MediaType = "fruit.csv", "text/csv"
	link := a2a.NewFileURLPart("https://example.com/fruit.csv", "text/csv")
	link.Filename = "fruit.csv"
	switch word {
	case "text":
		return r.artifact("demo", a2a.NewTextPart("A line of text.\nAnd another one."))
	case "data":
		return r.artifact("demo", data)
	case "file":
		return r.artifact("demo", file)
	case "link":
		return r.artifact("demo", link)
	case "parts":
		return r.artifact("demo", a2a.NewTextPart("A line of text."), data, file, link)
	case "chunks":
		return r.chunks(3)
	case "long":
		return r.long(words)
	case "ask":
		r.status(a2a.TaskStateInputRequired, "What shall the answer be?")
	case "auth":
		r.status(a2a.TaskStateAuthRequired, "May I? Any answer is a yes.")
	case "fail":
		r.status(a2a.TaskStateFailed, "It failed, as you wished.")
	case "reject":
		r.status(a2a.TaskStateRejected, "I will not do that.")
	default:
		return r.artifact("echo", r.ec.Message.Parts...)
	}
	return false
}

func (r run) chunks(n int) bool {
	id := a2a.NewArtifactID()
	for i := range n {
		text := fmt.Sprintf("chunk %d", i+1)
		if i < n-1 {
			text += ", "
		}
		ev := a2a.NewArtifactUpdateEvent(r.ec, id, a2a.NewTextPart(text))
		ev.Artifact.Name, ev.Append, ev.LastChunk = "chunks", i > 0, i == n-1
		if !r.y(ev, nil) {
			return false
		}
	}
	return true
}

func (r run) long(words []string) bool {
	whole := 30 * time.Second
	if len(words) > 1 {
		if d, err := time.ParseDuration(words[1]); err == nil {
			whole = d
		}
	}
	for i := range 10 {
		select {
		case <-r.ctx.Done():
			return false
		case <-time.After(whole / 10):
		}
		if !r.status(a2a.TaskStateWorking, strconv.Itoa((i+1)*10)+"% done") {
			return false
		}
	}
	return r.artifact("demo", a2a.NewTextPart("It took "+whole.String()+"."))
}

func main() {
	if err := serve(); err != nil {
		log.Fatal(err)
	}
}

func serve() error {
	var lc net.ListenConfig
	httpL, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	grpcL, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	url := "http://" + httpL.Addr().String()
	card := &a2a.AgentCard{
		Name: "Go demo", Description: "Does what the first word of a message says.", Version: "1.0.0",
		SupportedInterfaces: []*a2a.AgentInterface{
			a2a.NewAgentInterface(url+"/rpc", a2a.TransportProtocolJSONRPC),
			a2a.NewAgentInterface(url+"/rest", a2a.TransportProtocolHTTPJSON),
			a2a.NewAgentInterface(grpcL.Addr().String(), a2a.TransportProtocolGRPC),
		},
		Capabilities:      a2a.AgentCapabilities{Streaming: true, PushNotifications: true},
		DefaultInputModes: []string{"*/*"}, DefaultOutputModes: []string{"*/*"},
		Skills: []a2a.AgentSkill{{
			ID: "demo", Name: "Demonstration", Description: "Does what the first word of a message says.", Tags: []string{"demo"},
		}},
	}
	handler := a2asrv.NewHandler(demo{}, a2asrv.WithCapabilityChecks(&card.Capabilities),
		a2asrv.WithTaskStore(taskstore.NewInMemory(&taskstore.InMemoryStoreConfig{
			Authenticator: func(context.Context) (string, error) { return "everybody", nil }, // lists are of a caller
		})),
		a2asrv.WithPushNotifications(push.NewInMemoryStore(), push.NewHTTPPushSender(&push.HTTPSenderConfig{AllowPrivateNetworks: true})))
	server := grpc.NewServer()
	a2agrpc.NewHandler(handler).RegisterWith(server)
	mux := http.NewServeMux()
	mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewStaticAgentCardHandler(card))
	mux.Handle("/rpc", a2asrv.NewJSONRPCHandler(handler))
	mux.Handle("/rest/", http.StripPrefix("/rest", a2asrv.NewRESTHandler(handler)))
	failed := make(chan error, 2)
	go func() { failed <- server.Serve(grpcL) }()
	go func() {
		s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
		failed <- s.Serve(httpL)
	}()
	if _, err := fmt.Fprintf(os.Stdout, "agent: %s, grpc %s\n", url, grpcL.Addr()); err != nil {
		return err
	}
	return <-failed
}
