package push_test

import (
	"github.com/parley-a2a/parley/push"
	"github.com/parley-a2a/parley/server"
)

var _ server.PushConfigs = (*push.Push)(nil)
