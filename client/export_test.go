package client

import (
	"time"

	"github.com/parley-a2a/parley/a2a"
)

// What tests outside the package need to get at.

var DefaultHTTP = defaultHTTP

func (c *Client) SetTiming(first, most, giveUp time.Duration) { c.timing = timing{first, most, giveUp} }

func (c *Client) SetService(svc a2a.Service) { c.svc = svc }

func (c *CardCache) SetNow(now func() time.Time) { c.now = now }

func (c *CardCache) Len() int { return len(c.cards) }
