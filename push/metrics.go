package push

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Outcomes of an attempt, the attribute of its measurements.
var (
	outcomeAccepted = metric.WithAttributeSet(attribute.NewSet(attribute.String("outcome", "accepted")))
	outcomeRefused  = metric.WithAttributeSet(attribute.NewSet(attribute.String("outcome", "refused"))) // an answer that is not 2xx
	outcomeFailed   = metric.WithAttributeSet(attribute.NewSet(attribute.String("outcome", "failed")))  // no answer
)

// meters are the instruments.
type meters struct {
	deliveries metric.Int64Counter
	duration   metric.Float64Histogram
	dead       metric.Int64Counter
	waiting    metric.Registration
}

// init makes the instruments; waiting returns how many webhooks are not done.
func (m *meters) init(meter metric.Meter, waiting func() int64) error {
	if meter == nil {
		meter = otel.Meter("github.com/parley-a2a/parley/push")
	}
	var err error
	if m.deliveries, err = meter.Int64Counter("a2a.push.deliveries", metric.WithUnit("{delivery}"),
		metric.WithDescription("Attempts to deliver an event to a webhook.")); err != nil {
		return err
	}
	if m.duration, err = meter.Float64Histogram("a2a.push.duration", metric.WithUnit("s"),
		metric.WithDescription("Time of an attempt, the answer included.")); err != nil {
		return err
	}
	if m.dead, err = meter.Int64Counter("a2a.push.dead", metric.WithUnit("{webhook}"),
		metric.WithDescription("Webhooks that were given up.")); err != nil {
		return err
	}
	gauge, err := meter.Int64ObservableGauge("a2a.push.waiting", metric.WithUnit("{webhook}"),
		metric.WithDescription("Webhooks whose task's end is not delivered."))
	if err != nil {
		return err
	}
	m.waiting, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(gauge, waiting())
		return nil
	}, gauge)
	return err
}

func (m *meters) end() { _ = m.waiting.Unregister() }

// attempt measures one attempt.
func (m *meters) attempt(a answer) {
	outcome := outcomeFailed
	switch {
	case a.accepted():
		outcome = outcomeAccepted
	case a.status != 0:
		outcome = outcomeRefused
	}
	m.deliveries.Add(context.Background(), 1, outcome)
	m.duration.Record(context.Background(), a.took.Seconds(), outcome)
}

func (m *meters) gaveUp() { m.dead.Add(context.Background(), 1) }
