package golden

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
)

const (
	rawHTTP   = "raw"
	opRequest = "request"
)

// rawConn sends requests as they stand in the file, each on a connection of its own. Host, Connection: close
// and, unless it is there, Content-Length are added.
type rawConn struct{ addr string }

func (rawConn) Close() {}

func (c rawConn) Do(ctx context.Context, r Request) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		text, err := c.exchange(ctx, r.JSON)
		yield(json.RawMessage(text), err)
	}
}

func (c rawConn) exchange(ctx context.Context, text string) (string, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := io.WriteString(conn, c.complete(text)); err != nil {
		return "", err
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", res.Proto, res.Status)
	for _, name := range slices.Sorted(maps.Keys(res.Header)) {
		switch name {
		case "Date", "Content-Length", "Connection":
			continue
		}
		for _, v := range res.Header[name] {
			fmt.Fprintf(&b, "%s: %s\n", name, v)
		}
	}
	if len(body) > 0 {
		fmt.Fprintf(&b, "\n%s\n", body)
	}
	return b.String(), nil
}

// complete returns a request as it goes out.
func (c rawConn) complete(text string) string {
	head, body, _ := strings.Cut(text, "\n\n")
	body = strings.TrimSuffix(body, "\n")
	head = strings.TrimSuffix(head, "\n")
	lower := strings.ToLower(head)
	if !strings.Contains(lower, "\nhost:") {
		head += "\nHost: " + c.addr
	}
	if body != "" && !strings.Contains(lower, "\ncontent-length:") {
		head += fmt.Sprintf("\nContent-Length: %d", len(body))
	}
	return strings.ReplaceAll(head, "\n", "\r\n") + "\r\nConnection: close\r\n\r\n" + body
}
