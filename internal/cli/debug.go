package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// maxLogged is how many bytes of one line of a message --debug shows.
const maxLogged = 64 << 10

// logWire writes a line of a message under --debug: what was sent begins with >, what was received with <.
func (n *network) logWire(direction, line string) {
	cut := ""
	if len(line) > maxLogged {
		line, cut = line[:maxLogged], fmt.Sprintf(" (%d bytes more)", len(line)-maxLogged)
	}
	_, _ = io.WriteString(n.wire, direction+" "+visible(line)+cut+"\n") // nobody listens then
}

// shown returns r with its message logged as it is sent: the protocol's headers, and the body.
func (n *network) shown(r *http.Request) *http.Request {
	if n.wire == nil {
		return r
	}
	n.logWire(">", r.Method+" "+r.URL.Redacted())
	n.logHeaders(">", r.Header)
	if r.Body == nil || r.Body == http.NoBody {
		return r
	}
	out := r.WithContext(r.Context())
	out.Body = &wireBody{ReadCloser: r.Body, line: func(s string) { n.logWire(">", s) }}
	return out
}

// showAnswer has the message of an answer logged as it is read.
func (n *network) showAnswer(answer *http.Response) {
	if n.wire == nil {
		return
	}
	n.logWire("<", answer.Proto+" "+answer.Status)
	n.logHeaders("<", answer.Header)
	answer.Body = &wireBody{ReadCloser: answer.Body, line: func(s string) { n.logWire("<", s) }}
}

// logHeaders writes the headers that say what a message is. None of them carries a credential.
func (n *network) logHeaders(direction string, h http.Header) {
	for _, name := range []string{"A2A-Version", "A2A-Extensions", "Content-Type", "Www-Authenticate", "Retry-After", "Location"} {
		for _, v := range h.Values(name) {
			n.logWire(direction, name+": "+v)
		}
	}
}

// wireBody logs a body line by line as it is read, so that the events of a stream are seen when they come.
type wireBody struct {
	io.ReadCloser
	line func(string)
	held []byte // of a line whose end has not come
	over int    // bytes of it that were not kept
}

// Read implements io.Reader.
func (b *wireBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	rest := p[:n]
	for {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		kept := min(len(line), max(0, maxLogged-len(b.held)))
		b.held, b.over = append(b.held, line[:kept]...), b.over+len(line)-kept
		if !ended {
			break
		}
		b.flush()
		rest = after
	}
	if err != nil {
		b.flush()
	}
	return n, err
}

// Close implements io.Closer.
func (b *wireBody) Close() error {
	b.flush()
	return b.ReadCloser.Close()
}

func (b *wireBody) flush() {
	if s := strings.TrimRight(string(b.held), "\r"); s != "" {
		if b.over > 0 {
			s += fmt.Sprintf(" (%d bytes more)", b.over)
		}
		b.line(s)
	}
	b.held, b.over = b.held[:0], 0
}

// logMessage writes a message of gRPC as JSON: its own bytes nobody reads.
func (n *network) logMessage(direction, method string, m any) {
	if p, ok := m.(proto.Message); ok && n.wire != nil {
		n.logWire(direction, method+" "+protojson.MarshalOptions{}.Format(p))
	}
}

// shownUnary makes a call with its messages logged, and counted: gRPC takes and gives them whole.
func (n *network) shownUnary(ctx context.Context, method string, req, res any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts []grpc.CallOption) error {
	n.logMessage(">", method, req)
	n.countMessage("Sending", req)
	err := invoke(ctx, method, req, res, conn, opts...)
	if err == nil {
		n.logMessage("<", method, res)
		n.countMessage("Receiving", res)
	}
	return err
}

// countMessage has the person see how big a message is.
func (n *network) countMessage(verb string, m any) {
	if p, ok := m.(proto.Message); ok && n.progress != nil {
		size := proto.Size(p)
		t := n.transfer(verb, int64(size))
		t.add(size)
	}
}

// wireStream logs and counts the messages of a stream of gRPC.
type wireStream struct {
	grpc.ClientStream
	net      *network
	method   string
	received transfer
}

// SendMsg implements grpc.ClientStream.
func (s *wireStream) SendMsg(m any) error {
	s.net.logMessage(">", s.method, m)
	s.net.countMessage("Sending", m)
	return s.ClientStream.SendMsg(m)
}

// RecvMsg implements grpc.ClientStream.
func (s *wireStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		s.net.logMessage("<", s.method, m)
		if p, ok := m.(proto.Message); ok && s.net.progress != nil {
			s.received.add(proto.Size(p))
		}
	}
	return err
}
