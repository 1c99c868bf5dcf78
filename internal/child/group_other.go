//go:build !unix

package child

import (
	"os"
	"syscall"
)

// Without process groups the program itself is all that can be ended.

func ownGroup() *syscall.SysProcAttr { return nil }

func terminateGroup(p *os.Process) { _ = p.Kill() }

func killGroup(p *os.Process) { _ = p.Kill() }
