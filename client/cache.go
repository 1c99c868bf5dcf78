package client

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/agentcard"
)

// maxCards is how many cards a cache keeps. With one more, that which was fetched longest ago goes.
const maxCards = 256

// CardCache keeps agent cards in memory by the rules of HTTP (specification 8.6.2, RFC 9111): for as long as max-age or
// Expires say they are not asked for again, and after that, or where nothing is said, they are asked for with their ETag
// or Last-Modified, so that an unchanged card is not sent again. A card that is too old is never given out unasked. A
// card with no-store is not kept, nor is one to which a redirect led.
//
// The zero value is an empty cache. It is safe for use by several goroutines. Share one only among clients that
// would be given the same cards.
type CardCache struct {
	// Trust says which cards are taken, and so kept and given out: those of the origins that are enrolled, signed by one of
	// the keys that are enrolled with them, and the very card whose digest is. Where only a digest is enrolled, the card
	// need not be signed. Others are [ErrCardNotTrusted]. Origin is filled in, and Fetch where it is nil: key sets are read
	// with Options.HTTP. Nil: every card is taken. It is set before the first use and not changed.
	Trust *agentcard.Policy

	mu    sync.Mutex
	cards map[string]*keptCard // by URL
	now   func() time.Time     // nil: time.Now
}

// keptCard is a card with what HTTP says of it. It does not change.
type keptCard struct {
	card    *Card
	header  http.Header // those of keptHeaders
	fetched time.Time
	until   time.Time // it need not be asked for before
}

var (
	keptHeaders = []string{"Cache-Control", "Etag", "Expires", "Last-Modified", "Vary"}
	conditions  = []string{"If-None-Match", "If-Modified-Since"}
	validators  = []string{"Etag", "Last-Modified"} // of the conditions
)

func (c *CardCache) time() time.Time {
	if c != nil && c.now != nil {
		return c.now()
	}
	return time.Now()
}

func (c *CardCache) lookup(url string) *keptCard {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cards[url]
}

func (c *CardCache) fresh(k *keptCard) bool { return k != nil && c.time().Before(k.until) }

// askFor makes r ask whether the card has changed.
func (k *keptCard) askFor(r *http.Request) {
	if k == nil {
		return
	}
	for i, name := range conditions {
		if v := k.header.Get(validators[i]); v != "" {
			r.Header.Set(name, v)
		}
	}
}

// revalidates reports whether askFor asks anything.
func (k *keptCard) revalidates() bool {
	return k != nil && (k.header.Get("Etag") != "" || k.header.Get("Last-Modified") != "")
}

// renew keeps a card that has not changed, with what the answer says of it.
func (c *CardCache) renew(url string, card *Card, k *keptCard, asked time.Time, answer http.Header) {
	header := answer.Clone()
	for _, name := range keptHeaders {
		if len(header.Values(name)) == 0 {
			header[name] = k.header.Values(name)
		}
	}
	c.store(url, card, asked, header)
}

// store keeps a card if the headers of the answer that it came with allow it.
func (c *CardCache) store(url string, card *Card, asked time.Time, answer http.Header) {
	if c == nil {
		return
	}
	now := c.time()
	left, may := lifetime(answer, asked, now)
	if !may {
		c.forget(url)
		return
	}
	k := &keptCard{card: card, header: make(http.Header, len(keptHeaders)), fetched: now, until: now.Add(left)}
	for _, name := range keptHeaders {
		k.header[name] = answer.Values(name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cards == nil {
		c.cards = make(map[string]*keptCard)
	}
	c.cards[url] = k
	if len(c.cards) > maxCards {
		c.dropOldest()
	}
}

func (c *CardCache) forget(url string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.cards, url)
}

func (c *CardCache) dropOldest() {
	oldest := ""
	for url, k := range c.cards {
		if oldest == "" || k.fetched.Before(c.cards[oldest].fetched) {
			oldest = url
		}
	}
	delete(c.cards, oldest)
}

// lifetime returns for how long from now an answer need not be asked for again, and whether it may be kept at all.
func lifetime(answer http.Header, asked, now time.Time) (left time.Duration, may bool) {
	said := directives(answer.Values("Cache-Control"))
	if _, ok := said["no-store"]; ok {
		return 0, false
	}
	if _, ok := said["no-cache"]; ok || varies(answer) {
		return 0, true
	}
	date, err := http.ParseTime(answer.Get("Date"))
	if err != nil {
		date = now
	}
	// RFC 9111, 4.2.3: by the answer's own time, and by what the caches on the way say; the older of the two.
	age := max(now.Sub(date), seconds(answer.Get("Age"))+now.Sub(asked), 0)
	if v, ok := said["max-age"]; ok {
		return max(seconds(v)-age, 0), true
	}
	expires, err := http.ParseTime(answer.Get("Expires"))
	if err != nil { // 0, for one, means that it has expired
		return 0, true
	}
	return min(max(expires.Sub(date)-age, 0), year), true
}

// constant are the headers of requests for cards that are the same in all of them.
var constant = []string{"Accept", a2a.VersionHeader, "Accept-Encoding", "Accept-Language", "Origin"}

// varies reports whether the next request could be answered by another card (RFC 9111, 4.1): who sends the requests may
// add headers to them, such as a credential, which are not known here.
func varies(answer http.Header) bool {
	for _, line := range answer.Values("Vary") {
		for name := range strings.SplitSeq(line, ",") {
			name = strings.TrimSpace(name)
			same := func(s string) bool { return strings.EqualFold(s, name) }
			if name != "" && !slices.ContainsFunc(constant, same) {
				return true
			}
		}
	}
	return false
}

// directives returns what Cache-Control says, by names in lower case. Of two of the same name the first counts.
func directives(lines []string) map[string]string {
	out := map[string]string{}
	for _, line := range lines {
		for line != "" {
			var directive string
			directive, line = cutDirective(line)
			name, value, _ := strings.Cut(directive, "=")
			name = strings.ToLower(strings.TrimSpace(name))
			if _, twice := out[name]; name != "" && !twice {
				out[name] = strings.Trim(strings.TrimSpace(value), `"`)
			}
		}
	}
	return out
}

// cutDirective cuts a list after its first element. A comma in quotes is none.
func cutDirective(list string) (first, rest string) {
	quoted := false
	for i := 0; i < len(list); i++ {
		switch {
		case quoted && list[i] == '\\':
			i++
		case list[i] == '"':
			quoted = !quoted
		case list[i] == ',' && !quoted:
			return list[:i], list[i+1:]
		}
	}
	return list, ""
}

// year is longer than any card is kept.
const year = 365 * 24 * time.Hour

// seconds reads a number of seconds, of which a year is enough (RFC 9111, 1.2.2).
func seconds(s string) time.Duration {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0
	}
	return time.Duration(min(n, uint64(year/time.Second))) * time.Second
}
