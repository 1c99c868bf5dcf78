package httpx

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/parley-a2a/parley/a2a"
)

// Media types of bodies.
const (
	MediaTypeJSON = "application/json"
	MediaTypeA2A  = "application/a2a+json" // specification 14.1.1
)

// ReadBody reads the request body, at most MaxBody bytes in BodyTimeout, and wants its media type to be JSON. A
// body without one must be empty. The bytes are good until FreeBody.
func (x *Exchange) ReadBody() ([]byte, error) {
	types := x.Request.Header["Content-Type"]
	if len(types) > 0 && (len(types) > 1 || !IsJSON(types[0])) {
		return nil, a2a.Errorf(a2a.ErrUnsupportedMediaType, "Content-Type %q is not supported: send %s or %s in UTF-8",
			clip(strings.Join(types, ", ")), MediaTypeA2A, MediaTypeJSON)
	}
	if enc := x.Request.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return nil, a2a.Errorf(a2a.ErrUnsupportedMediaType, "Content-Encoding %q is not supported: send the body as it is", clip(enc))
	}
	if !x.unread {
		return nil, nil
	}
	if x.Request.ContentLength > x.opts.MaxBody {
		return nil, x.tooLarge()
	}
	body, err := x.readAll()
	if err != nil {
		return nil, err
	}
	if len(types) == 0 && len(body) > 0 {
		return nil, a2a.Errorf(a2a.ErrUnsupportedMediaType, "the body has no Content-Type: send %s or %s", MediaTypeA2A, MediaTypeJSON)
	}
	return body, nil
}

// limitBody sets the time in which the body must arrive, be it read by us or passed over by net/http, which takes
// the deadline off when it has come to the end of the body.
func (x *Exchange) limitBody() {
	if x.unread = x.Request.ContentLength != 0; x.unread {
		_ = x.rc.SetReadDeadline(time.Now().Add(x.opts.BodyTimeout)) // without it the server's own limits hold
	}
}

func (x *Exchange) readAll() ([]byte, error) {
	body := x.Request.Body
	if x.Request.ContentLength < 0 { // otherwise net/http lets no more through than was announced
		body = http.MaxBytesReader(x.w, body, x.opts.MaxBody)
	}
	x.body = getBuffer()
	var err error
	*x.body, err = appendAll(*x.body, body, x.Request.ContentLength)
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		x.unread = false
		return *x.body, nil
	case errors.As(err, &tooLarge):
		return nil, x.tooLarge()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, a2a.Errorf(a2a.ErrRequestTimeout, "the request body did not arrive in %v", x.opts.BodyTimeout)
	}
	return nil, a2a.Errorf(a2a.ErrInvalidRequest, "the request body could not be read").WithCause(err)
}

func (x *Exchange) tooLarge() error {
	e := a2a.Errorf(a2a.ErrTooLarge, "the request body is over the limit of %d bytes", x.opts.MaxBody)
	e.Metadata = map[string]string{"limit": "body", "bytes": fmt.Sprint(x.opts.MaxBody)}
	return e
}

// FreeBody gives the memory of the request body back. What was decoded from it stays good.
func (x *Exchange) FreeBody() {
	if x.body != nil {
		putBuffer(x.body)
		x.body = nil
	}
}

// IsJSON reports whether a Content-Type is JSON in UTF-8.
func IsJSON(contentType string) bool {
	switch contentType {
	case MediaTypeJSON, MediaTypeA2A:
		return true
	}
	t, params, err := mime.ParseMediaType(contentType)
	if err != nil || t != MediaTypeJSON && t != MediaTypeA2A {
		return false
	}
	charset, ok := params["charset"]
	return !ok || strings.EqualFold(charset, "utf-8")
}

// clip shortens what a caller sent for a message that quotes it.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
