package rest

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/parley-a2a/parley/internal/op"
)

// route is the path of an operation, cut at its slashes. http.ServeMux cannot have it: a pattern there has no
// text behind a wildcard in one segment.
type route struct {
	op       *op.Op
	methods  []string
	segments []segment
}

// segment is a literal, or a field of the request with a verb behind it, such as {id}:cancel.
type segment struct {
	literal string
	field   string
	verb    string // with its colon; may be empty
}

const maxSegments = 5 // of a path: the longest of the table, and the tenant before it

var routes, verbs = func() (routes []route, verbs []string) {
	for i := range op.All {
		o := &op.All[i]
		r := route{op: o, methods: []string{o.Method}}
		if o.Name == "SubscribeToTask" { // GET in the proto, POST in the specification's text
			r.methods = []string{http.MethodGet, http.MethodPost}
		}
		for s := range strings.SplitSeq(o.Path[1:], "/") {
			field, verb, isField := strings.Cut(strings.TrimPrefix(s, "{"), "}")
			if !isField {
				r.segments = append(r.segments, segment{literal: s})
				continue
			}
			r.segments = append(r.segments, segment{field: field, verb: verb})
			if verb != "" {
				verbs = append(verbs, verb)
			}
		}
		routes = append(routes, r)
	}
	return routes, verbs
}()

// match is where a request goes, and the fields that its path holds.
type match struct {
	op     *op.Op
	fields []field
}

type field struct{ name, value string }

// find returns where a request goes; without an operation, allowed has the methods that its path knows, or none.
// A path that also reads as one with a tenant before it is one without.
func find(method, escapedPath string) (m match, allowed []string) {
	rest, ok := strings.CutPrefix(escapedPath, "/")
	path := make([]string, 0, maxSegments)
	for s := range strings.SplitSeq(rest, "/") {
		if len(path) == maxSegments {
			return match{}, nil
		}
		path = append(path, s)
	}
	if !ok {
		return match{}, nil
	}
	for tenants := range 2 {
		for i := range routes {
			r := &routes[i]
			if len(path) != len(r.segments)+tenants {
				continue
			}
			fields, ok := r.match(path, tenants)
			switch {
			case !ok:
			case slices.Contains(r.methods, method):
				return match{op: r.op, fields: fields}, nil
			default:
				allowed = append(allowed, r.methods...)
			}
		}
	}
	slices.Sort(allowed)
	return match{}, slices.Compact(allowed)
}

func (r *route) match(path []string, tenants int) ([]field, bool) {
	var fields []field
	if tenants > 0 {
		value, err := url.PathUnescape(path[0])
		if err != nil || value == "" {
			return nil, false
		}
		fields = append(fields, field{"tenant", value})
		path = path[1:]
	}
	for i, s := range r.segments {
		value, ok := s.match(path[i])
		if !ok {
			return nil, false
		}
		if s.field != "" {
			fields = append(fields, field{s.field, value})
		}
	}
	return fields, true
}

// match returns what an escaped segment says. A verb is one only when its colon is not escaped, so that every
// id can be sent.
func (s segment) match(escaped string) (string, bool) {
	if s.field != "" {
		if verbOf(escaped) != s.verb {
			return "", false
		}
		escaped = strings.TrimSuffix(escaped, s.verb)
	}
	value, err := url.PathUnescape(escaped)
	if s.field == "" {
		return value, err == nil && value == s.literal
	}
	return value, err == nil && value != ""
}

func verbOf(escaped string) string {
	for _, v := range verbs {
		if strings.HasSuffix(escaped, v) {
			return v
		}
	}
	return ""
}

// escape writes a field into a path. A colon is escaped too: what follows it could be a verb.
func escape(value string) string { return strings.ReplaceAll(url.PathEscape(value), ":", "%3A") }
