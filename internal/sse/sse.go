// Package sse writes and reads event streams (text/event-stream, the WHATWG HTML standard, section 9.2) as
// the JSON bindings use them (specification 9.4.2 and 11.7).
package sse

// MediaType is the media type of an event stream.
const MediaType = "text/event-stream"
