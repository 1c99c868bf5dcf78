package server

import (
	"context"
	"log/slog"
)

// taskLog returns a logger whose lines carry the task's and context's ids. Most runs log nothing, so the ids
// are put in only when a line is written.
func (s *Server) taskLog(task, contextID string) *slog.Logger {
	return slog.New(&taskHandler{Handler: s.log.Handler(), task: task, contextID: contextID})
}

type taskHandler struct {
	slog.Handler
	task, contextID string
}

// Handle implements slog.Handler.
func (h *taskHandler) Handle(ctx context.Context, r slog.Record) error {
	r.AddAttrs(slog.String("task", h.task), slog.String("context", h.contextID))
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *taskHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &taskHandler{h.Handler.WithAttrs(attrs), h.task, h.contextID}
}

// WithGroup implements slog.Handler. The ids go before the group.
func (h *taskHandler) WithGroup(name string) slog.Handler {
	ids := []slog.Attr{slog.String("task", h.task), slog.String("context", h.contextID)}
	return h.Handler.WithAttrs(ids).WithGroup(name)
}
