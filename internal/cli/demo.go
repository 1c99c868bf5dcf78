package cli

import (
	"github.com/spf13/cobra"

	"github.com/parley-a2a/parley"
)

// demoFlags are the flags of serve that demo-server has too, with their defaults.
var demoFlags = []struct{ name, value, about string }{
	{"listen", parley.DefaultListen, "HTTP, port 0: any (`ADDR`)"},
	{"grpc-listen", parley.DefaultGRPCListen, "gRPC, or none (`ADDR`)"},
	{"log-level", "warn", "debug, info, warn or error (`LEVEL`)"},
}

// demoServer runs an agent to practise with (specification 7.1).
func (a *app) demoServer() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo-server",
		Short: "Run an agent to practise with: it shows every state of a task",
		Long: `Run an agent to practise with, on JSON-RPC, HTTP+JSON and gRPC. The first word of a
message says what becomes of it: text, data, file, link, parts, chunks, long, ask,
auth, fail, reject, message; help lists them. Tasks are kept in memory. It is parley
serve --agent demo: for more than practice see there.`,
		Example: `  parley demo-server
  parley send help
  parley send ask`,
		Args: noArgs,
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	for _, f := range demoFlags {
		fs.String(f.name, f.value, f.about)
	}
	noStreaming := fs.Bool("no-streaming", false, "offer no streams, as some agents")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		args := []string{"--agent", "demo", "--store", "memory:", "--allow-private-webhooks"}
		for _, f := range demoFlags {
			if flag := fs.Lookup(f.name); flag.Changed || f.name == "log-level" { // HOST and PORT stand behind flags only
				args = append(args, "--"+f.name, flag.Value.String())
			}
		}
		if *noStreaming {
			args = append(args, "--no-streaming")
		}
		serve := a.serve()
		serve.SetContext(cmd.Context())
		if err := serve.ParseFlags(args); err != nil {
			return err
		}
		return serve.RunE(serve, nil)
	}
	return cmd
}
