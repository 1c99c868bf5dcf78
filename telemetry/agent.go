package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agent"
)

// Agent returns next with signals around every run of Handle:
//
//   - a span "Handle", the first of its trace: a run outlives the call that started it, and may have been
//     started by several. The task's id leads from the one to the other. What the agent calls with its context is
//     part of the run's trace.
//   - a2a.agent.run.duration: how long, by outcome. Time that the run waits for an answer (Ask) counts; a parked
//     task is two runs.
//   - a2a.agent.active_runs: runs that have not returned.
//
// An outcome is "ok" if Handle returned nil, whatever became of the task; CANCELED and INTERRUPTED if its caller or
// the host ended it; otherwise the reason of the error's code, INTERNAL_ERROR for a panic.
//
// What is returned implements every optional interface of package agent: it asks next, and where next does not have
// it, gives the answer that means the same as not having it. Accept is part of the call that it decides about and has
// no signals of its own.
func Agent(next agent.Agent, opts Options) agent.Agent {
	m := opts.meter()
	return &runs{
		Agent: next, tracer: opts.tracer(),
		duration: made(m.Float64Histogram("a2a.agent.run.duration", longBuckets,
			metric.WithUnit("s"), metric.WithDescription("Duration of runs of the agent."))),
		active: made(m.Int64UpDownCounter("a2a.agent.active_runs",
			metric.WithUnit("{run}"), metric.WithDescription("Runs of the agent that have not returned."))),
	}
}

// runs watches an agent's runs.
type runs struct {
	agent.Agent
	tracer   trace.Tracer
	duration metric.Float64Histogram
	active   metric.Int64UpDownCounter
}

// A test holds this list, and the methods below, to the interfaces of package agent.
var (
	_ agent.Accepter    = (*runs)(nil)
	_ agent.Canceler    = (*runs)(nil)
	_ agent.Restartable = (*runs)(nil)
)

// Accept implements agent.Accepter. Without one, every message makes a task.
func (a *runs) Accept(ctx context.Context, r *agent.Request) (*a2a.Message, error) {
	if next, ok := a.Agent.(agent.Accepter); ok {
		return next.Accept(ctx, r)
	}
	return nil, nil
}

// Canceled implements agent.Canceler.
func (a *runs) Canceled(ctx context.Context, task *a2a.Task) {
	if next, ok := a.Agent.(agent.Canceler); ok {
		next.Canceled(ctx, task)
	}
}

// Restartable implements agent.Restartable. Without it, an agent is not restartable.
func (a *runs) Restartable() bool {
	next, ok := a.Agent.(agent.Restartable)
	return ok && next.Restartable()
}

// Handle implements agent.Agent.
func (a *runs) Handle(ctx context.Context, r *agent.Request, u *agent.Updater) error {
	start := time.Now()
	ctx, span := a.tracer.Start(ctx, "Handle")
	a.active.Add(ctx, 1)
	err := errUnwound
	defer func() {
		a.active.Add(ctx, -1)
		outcome := outcomeOfRun(ctx, err)
		a.duration.Record(ctx, time.Since(start).Seconds(), metric.WithAttributes(outcomeKey.String(outcome)))
		if span.IsRecording() {
			if err != nil {
				span.SetStatus(codes.Error, "")
				span.SetAttributes(errorTypeKey.String(outcome))
			}
			span.SetAttributes(identity([]attribute.KeyValue{outcomeKey.String(outcome)}, subjectOf(r.Task), r.Caller)...)
		}
		span.End()
	}()
	err = a.Agent.Handle(ctx, r, u)
	return err
}

func outcomeOfRun(ctx context.Context, err error) string {
	switch {
	case errors.Is(context.Cause(ctx), agent.ErrCanceled):
		return a2a.ErrCanceled.Reason()
	case err == nil:
		return outcomeOK
	case ctx.Err() != nil:
		return outcomeInterrupted
	}
	return codeOf(ctx, err).Reason()
}
