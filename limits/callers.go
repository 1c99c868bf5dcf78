package limits

import (
	"container/list"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/parley-a2a/parley/a2a"
)

// Names of the limits, as callers are told them.
const (
	requests = "requests"
	streams  = "streams"
)

// Headers of an answer: draft-ietf-httpapi-ratelimit-headers-10.
const (
	policyHeader = "Ratelimit-Policy"
	limitHeader  = "Ratelimit"
)

// callers counts what callers use. Those that use nothing and were silent for longest are forgotten.
type callers struct {
	opts   Options
	policy string // of RateLimit-Policy

	mu    sync.Mutex
	byKey map[string]*list.Element
	order *list.List // of *caller, the latest first
}

type caller struct {
	key     string
	bucket  *rate.Limiter
	streams int // that are open
}

func newCallers(opts Options) *callers {
	c := &callers{opts: opts, byKey: map[string]*list.Element{}, order: list.New()}
	if opts.Rate > 0 {
		window := max(1, int(math.Ceil(float64(opts.Burst)/opts.Rate)))
		c.policy = fmt.Sprintf(`"%s";q=%d;w=%d`, requests, opts.Burst, window)
	}
	if opts.Streams > 0 {
		if c.policy != "" {
			c.policy += ", "
		}
		c.policy += fmt.Sprintf(`"%s";q=%d;qu="concurrent-requests"`, streams, opts.Streams)
	}
	return c
}

// count counts a request, or says that it is over the limit, and puts into the answer's headers what is left.
func (c *callers) count(info *a2a.CallInfo, now time.Time) error {
	key := c.keyOf(info)
	if key == "" || c.policy == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	info.SetReply(policyHeader, c.policy)
	if c.opts.Rate < 0 {
		return nil
	}
	who := c.find(key)
	ok := who.bucket.AllowN(now, 1)
	left := who.bucket.TokensAt(now)
	info.SetReply(limitHeader, c.requestsLeft(left))
	if !ok {
		return tooMany(requests, c.untilNext(left), "more than %g requests a second, or %d at once, of one caller", c.opts.Rate, c.opts.Burst)
	}
	return nil
}

// uncount takes back that a request was counted.
func (c *callers) uncount(info *a2a.CallInfo, now time.Time) {
	info.Reply.Del(policyHeader)
	info.Reply.Del(limitHeader)
	key := c.keyOf(info)
	if key == "" || c.opts.Rate < 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if el, ok := c.byKey[key]; ok {
		el.Value.(*caller).bucket.AllowN(now, -1) //nolint:forcetypeassert // the list holds nothing else
	}
}

// open takes a stream in, which then must leave, or says that there are too many.
func (c *callers) open(info *a2a.CallInfo) (leave func(), err error) {
	key := c.keyOf(info)
	if key == "" || c.opts.Streams < 0 {
		return func() {}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	who := c.find(key)
	ok := who.streams < c.opts.Streams
	if ok {
		who.streams++
	}
	said := info.Reply.Get(limitHeader)
	if said != "" {
		said += ", "
	}
	said += fmt.Sprintf(`"%s";r=%d`, streams, c.opts.Streams-who.streams)
	info.SetReply(limitHeader, said)
	if !ok {
		return nil, tooMany(streams, 0, "%d streams of this caller are open: end one", c.opts.Streams)
	}
	return func() { c.leave(who) }, nil
}

func (c *callers) leave(who *caller) {
	c.mu.Lock()
	defer c.mu.Unlock()
	who.streams--
}

// find returns what is known of a caller.
func (c *callers) find(key string) *caller {
	if el, ok := c.byKey[key]; ok {
		c.order.MoveToFront(el)
		return el.Value.(*caller) //nolint:forcetypeassert // the list holds nothing else
	}
	if len(c.byKey) >= c.opts.Callers {
		c.forget()
	}
	who := &caller{key: key, bucket: rate.NewLimiter(rate.Limit(c.opts.Rate), c.opts.Burst)}
	c.byKey[key] = c.order.PushFront(who)
	return who
}

// forget makes room for a caller. Those with streams are passed over: they are as many as there are streams at most.
func (c *callers) forget() {
	for range 64 {
		el := c.order.Back()
		who := el.Value.(*caller) //nolint:forcetypeassert // the list holds nothing else
		if who.streams == 0 {
			c.order.Remove(el)
			delete(c.byKey, who.key)
			return
		}
		c.order.MoveToFront(el)
	}
}

// requestsLeft is the item of the requests in the header RateLimit.
func (c *callers) requestsLeft(left float64) string {
	s := `"` + requests + `";r=` + strconv.Itoa(max(0, int(left)))
	if left < float64(c.opts.Burst) {
		s += ";t=" + strconv.FormatInt(int64(math.Ceil(c.untilNext(left).Seconds())), 10)
	}
	return s
}

// untilNext returns how long it is until one more request than now may be made.
func (c *callers) untilNext(left float64) time.Duration {
	missing := math.Floor(left) + 1 - left
	return max(time.Millisecond, time.Duration(missing/c.opts.Rate*float64(time.Second)))
}

// keyOf returns as whom a call counts; empty: it is not limited.
func (c *callers) keyOf(info *a2a.CallInfo) string {
	if info == nil {
		return ""
	}
	if addr, ok := info.PeerAddr(); ok && addr.IsLoopback() && info.Caller.Anonymous() && !c.opts.Loopback {
		return ""
	}
	return info.Who()
}

// tooMany returns the error for a call over a limit.
func tooMany(limit string, after time.Duration, format string, args ...any) error {
	e := a2a.Errorf(a2a.ErrResourceExhausted, format+" (limit %s)", append(args, limit)...)
	e.Metadata = map[string]string{"limit": limit}
	e.RetryAfter = after
	return e
}
