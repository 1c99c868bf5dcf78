package client

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/extension"
)

// known returns the extensions that the card offers and a client makes use of by itself.
func (c *Client) known() []string {
	var out []string
	for _, uri := range []string{extension.TaskLog, extension.SafeRetry, extension.ChunkIntegrity} {
		if c.offers(uri) {
			out = append(out, uri)
		}
	}
	return out
}

func (c *Client) offers(uri string) bool {
	return slices.ContainsFunc(c.card.Capabilities.Extensions, func(x *a2a.AgentExtension) bool { return x.URI == uri })
}

// declares reports whether a call with ctx asks for an extension that the card offers.
func (c *Client) declares(ctx context.Context, uri string) bool {
	if !c.offers(uri) {
		return false
	}
	given := a2a.CallInfoFrom(ctx)
	return slices.Contains(c.extensions, uri) || given != nil && slices.Contains(given.Extensions, uri)
}

// withInfo returns ctx with a CallInfo, the one it has or a new one, by which one learns what is in effect.
func withInfo(ctx context.Context) (context.Context, *a2a.CallInfo) {
	if info := a2a.CallInfoFrom(ctx); info != nil {
		return ctx, info
	}
	info := new(a2a.CallInfo)
	return a2a.WithCallInfo(ctx, info), info
}

// numbered returns the entry with the generation that task-log has put on its event. Where an agent also numbers the
// frames of its streams, that of the event counts: it is what every binding has.
func (x *exchange) numbered(e a2a.Entry) a2a.Entry {
	if slices.Contains(x.info.Activated, extension.TaskLog) {
		if n := extension.Generation(e.Event); n > 0 {
			e.Generation = n
		}
	}
	return e
}

type parametersKey struct{}

// with returns ctx with a generation as a service parameter of the calls made with it.
func with(ctx context.Context, name string, generation int64) context.Context {
	p := merge(parameters(ctx), http.Header{name: {strconv.FormatInt(generation, 10)}})
	return context.WithValue(ctx, parametersKey{}, p)
}

func parameters(ctx context.Context) http.Header {
	p, _ := ctx.Value(parametersKey{}).(http.Header)
	return p
}

// IfGeneration returns a context for sending a message to a task only while the task is at a generation: that of the
// last Entry, or extension.Generation of a Task. Where it has moved on, the error is [a2a.ErrTaskGenerationMismatch],
// and nothing was done. A message that begins a task is sent in any case. The agent must offer task-log and the client
// declare it; otherwise the message is refused (ErrUnsupportedOperation) before it is sent, since nobody would look.
func IfGeneration(ctx context.Context, generation int64) context.Context {
	return with(ctx, extension.IfGenerationMatch, generation)
}

// checkPrecondition refuses a precondition that the agent would not look at.
func (c *Client) checkPrecondition(ctx context.Context) error {
	if parameters(ctx).Get(extension.IfGenerationMatch) == "" || c.declares(ctx, extension.TaskLog) {
		return nil
	}
	return a2a.Errorf(a2a.ErrUnsupportedOperation,
		"the message is to be sent only while the task is at a generation, which needs the extension %s on both ends", extension.TaskLog)
}
