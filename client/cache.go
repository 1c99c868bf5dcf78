package client

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxCards is how many cards a cache keeps. With one more, that which was fetched longest ago goes.
const maxCards = 256

// CardCache keeps agent cards in memory by the rules of HTTP (specification 8.6.2, RFC 9111): for as long as
// max-age says they are not asked for again, and after that, or where nothing is said, they are asked for with
// their ETag or Last-Modified, so that an unchanged card is not sent again. A card with no-store is not kept.
//
// The zero value is an empty cache. It is safe for use by several goroutines. Share one only among clients that
// would be given the same cards.
type CardCache struct {
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

var keptHeaders = []string{"Cache-Control", "Etag", "Last-Modified"}

func (c *CardCache) time() time.Time {
	if c.now != nil {
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
	if v := k.header.Get("Etag"); v != "" {
		r.Header.Set("If-None-Match", v)
	}
	if v := k.header.Get("Last-Modified"); v != "" {
		r.Header.Set("If-Modified-Since", v)
	}
}

// renew keeps a card that has not changed, with what the answer says of it, and returns it.
func (c *CardCache) renew(url string, k *keptCard, answer http.Header) *Card {
	header := answer.Clone()
	for _, name := range keptHeaders {
		if len(header.Values(name)) == 0 {
			header[name] = k.header.Values(name)
		}
	}
	c.store(url, k.card, header)
	return k.card
}

// store keeps a card if the headers of the answer that it came with allow it.
func (c *CardCache) store(url string, card *Card, answer http.Header) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	age, may := lifetime(answer)
	if !may {
		delete(c.cards, url)
		return
	}
	k := &keptCard{card: card, header: make(http.Header, len(keptHeaders)), fetched: c.time()}
	k.until = k.fetched.Add(age)
	for _, name := range keptHeaders {
		k.header[name] = answer.Values(name)
	}
	if c.cards == nil {
		c.cards = make(map[string]*keptCard)
	}
	c.cards[url] = k
	if len(c.cards) > maxCards {
		c.dropOldest()
	}
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

// lifetime returns for how long an answer need not be asked for again, and whether it may be kept at all.
func lifetime(answer http.Header) (age time.Duration, may bool) {
	age = -1 // not said
	ask := false
	for _, line := range answer.Values("Cache-Control") {
		for directive := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.ToLower(strings.TrimSpace(directive)), "=")
			switch name {
			case "no-store":
				return 0, false
			case "no-cache":
				ask = true
			case "max-age":
				if age < 0 {
					age = seconds(strings.Trim(value, `"`))
				}
			}
		}
	}
	if ask {
		return 0, true
	}
	return max(0, age-seconds(answer.Get("Age"))), true
}

// seconds reads a number of seconds, of which a year is enough.
func seconds(s string) time.Duration {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0
	}
	return time.Duration(min(n, 365*24*60*60)) * time.Second
}
