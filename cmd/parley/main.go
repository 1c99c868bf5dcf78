// Command parley serves an agent on A2A 1.0 and talks to agents from the command line.
package main

import (
	"os"

	"github.com/parley-a2a/parley/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
