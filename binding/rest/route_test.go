package rest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/internal/op"
)

// FuzzPath sends every task id and tenant through a path and back.
func FuzzPath(f *testing.F) {
	f.Add("t1", "")
	f.Add("a:cancel", "tasks")
	f.Add("a/b?c#d%2F é", "T/:subscribe")
	f.Fuzz(func(t *testing.T, id, tenant string) {
		for _, name := range []string{"GetTask", "CancelTask", "SubscribeToTask", "GetTaskPushNotificationConfig"} {
			o := op.ByName(name)
			req := o.NewRequest()
			*op.Field(req, "tenant"), *op.Field(req, "id") = tenant, id
			if task := op.Field(req, "taskId"); task != nil {
				*task = id
			}
			path, err := pathOf(o, req)
			if err != nil {
				if id != "" && id != "." && id != ".." {
					t.Errorf("%q: %v", id, err)
				}
				continue
			}
			m, _ := find(o.Method, path)
			if m.op != o {
				t.Fatalf("%s came to %v", path, m)
			}
			got := o.NewRequest()
			r := &http.Request{Method: o.Method, URL: &url.URL{}}
			if err := readURL(r, m, got); err != nil {
				if utf8.ValidString(id) && utf8.ValidString(tenant) {
					t.Errorf("%s: %v", path, err)
				}
				continue
			}
			if *op.Field(got, "id") != id || *op.Field(got, "tenant") != tenant {
				t.Errorf("%s: got %s", path, got.AppendJSON(nil))
			}
		}
	})
}

// FuzzQuery holds a query to the JSON object with the same members, and a request that was read to its own query.
func FuzzQuery(f *testing.F) {
	f.Add("contextId=c&page_size=5&includeArtifacts=true&statusTimestampAfter=2026-01-31T12:00:00Z&pageToken=a%2Bb&status=TASK_STATE_WORKING")
	f.Add("historyLength=-1&historyLength=2&x=%zz;")
	f.Fuzz(func(t *testing.T, query string) {
		o := op.ByName("ListTasks")
		req := o.NewRequest()
		r := &http.Request{Method: http.MethodGet, URL: &url.URL{RawQuery: query}}
		if err := readURL(r, match{op: o}, req); err != nil {
			if code := a2a.AsError(err).Code; code != a2a.ErrInvalidParams {
				t.Errorf("%q: %v is %v", query, err, code.Name())
			}
			return
		}
		again := o.NewRequest()
		r.URL.RawQuery = queryOf(o, req)
		if err := readURL(r, match{op: o}, again); err != nil {
			t.Fatalf("%q: its own query %q: %v", query, r.URL.RawQuery, err)
		}
		*op.Field(again, "tenant") = *op.Field(req, "tenant")
		if a, b := string(req.AppendJSON(nil)), string(again.AppendJSON(nil)); a != b || !json.Valid([]byte(a)) {
			t.Errorf("%q: %s became %s", query, a, b)
		}
	})
}

// FuzzTarget gives the handler any request line: it finds an operation or says what is wrong, and never fails.
func FuzzTarget(f *testing.F) {
	for _, o := range op.All {
		f.Add(o.Method, o.Path+"?"+strings.Join(o.Query, "=1&"), "{}")
	}
	f.Add("GET", "/tasks/%zz", "")
	h := NewHandler(nil, Options{})
	f.Fuzz(func(t *testing.T, method, target, body string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || method == "" {
			return
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
		r.Method, r.URL = method, u
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("A2A-Version", "0") // it stops before the service, which is not there
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code < 400 || w.Code >= 500 {
			t.Errorf("%s %s: got %d %s", method, target, w.Code, w.Body)
		}
	})
}
