package tap

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// closing is a body as net/http's server has it: the end comes with the last bytes, and after the answer has begun there is
// an error.
type closing struct{ reads int }

func (c *closing) Read(b []byte) (int, error) {
	if c.reads++; c.reads > 1 {
		return 0, errors.New("invalid Read on closed Body")
	}
	return copy(b, "all of it"), io.EOF
}

func (*closing) Close() error { return nil }

// TestReadAfterAnswer reads a body after its end, as a transport does: it has ended, whatever the server thinks of it.
func TestReadAfterAnswer(t *testing.T) {
	rec, err := NewRecorder(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	s := &sent{ReadCloser: new(closing), p: &passing{rec: rec}}
	if b, err := io.ReadAll(s); err != nil || string(b) != "all of it" {
		t.Fatalf("%q, %v", b, err)
	}
	if n, err := s.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("%d, %v", n, err)
	}
}

// TestStatusInHeader passes on a gRPC error that is one frame, as a reverse proxy that flushes does: it stays one.
func TestStatusInHeader(t *testing.T) {
	rec, err := NewRecorder(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	s := httptest.NewUnstartedServer(rec.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Status", "5")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
	})))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	res, err := s.Client().Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.Header.Get("Grpc-Status") != "5" || res.ContentLength != 0 { // unknown where the header does not end the stream
		t.Errorf("%v: more frames came after the header", res.Header)
	}
}
