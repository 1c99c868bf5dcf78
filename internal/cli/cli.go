// Package cli is the command line of parley: the commands of the a2a-cli specification as a client of any
// A2A 1.0 agent, and serve, which runs an agent.
//
// What a command prints on stdout is its result and nothing else; all that is said about the work goes to
// stderr. Exit codes and error codes are those of the specification's section 11.6 and appendix D.
package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/client"
)

// Main runs the command that args name, without the program's own name, and returns the exit code.
//
// SIGINT and SIGTERM ask the command to end; a second one ends the process at once.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	a := &app{in: stdin, out: stdout, err: stderr, json: asksForJSON(args)}
	root := a.root()
	root.SetArgs(withCommand(args))
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	f := failureOf(err).seeHelp(cmd)
	a.report(f)
	return f.exit
}

// app is what the commands share.
type app struct {
	in       io.Reader
	out, err io.Writer
	json     bool // errors are reported as JSON on stdout
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "parley",
		Short: "Put an agent on A2A 1.0, and talk to agents",
		Long: `Put an agent on A2A 1.0, and talk to agents: parley serve runs one, and
parley send "How long is this?" asks it. parley COMMAND --help has the flags.

Exit codes: 0 done, 1 failed, 2 usage, 3 unreachable, 4 credentials, 5 timeout`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.Flags().BoolP("version", "v", false, "print the version")
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { writeHelp(a.out, cmd) })
	root.SetUsageFunc(func(cmd *cobra.Command) error { writeHelp(a.err, cmd); return nil })
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		if errors.Is(err, pflag.ErrHelp) {
			return err
		}
		return usage("%s", err.Error())
	})
	root.AddCommand(a.serve(), a.send(), a.chat(), a.auth(), a.configCommands(), a.acp(), a.task(), a.card(), a.storeCommands(), a.conformance(), a.tap(), a.demoServer(), a.man(), optionsTopic(), &cobra.Command{
		Use:   "version",
		Short: "Print the version of parley",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(a.out, version())
			return err
		},
	})
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() { // left to themselves they take a wrong word for no usage error
		case "completion":
			group(cmd)
		case "help":
			cmd.Run, cmd.RunE = nil, helpAbout
		}
	}
	return group(root)
}

// helpAbout prints the help of the command that the words name.
func helpAbout(help *cobra.Command, words []string) error {
	cmd := help.Root()
	for _, word := range words {
		i := slices.IndexFunc(cmd.Commands(), func(sub *cobra.Command) bool { return sub.Name() == word })
		if i < 0 {
			return noCommand(cmd, word)
		}
		cmd = cmd.Commands()[i]
	}
	cmd.InitDefaultHelpFlag()
	return cmd.Help()
}

// group makes a command that has nothing to do itself print its help, and refuse a word that is none of its
// commands.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return noCommand(cmd, args[0])
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}

// noCommand says that a word is no command of cmd.
func noCommand(cmd *cobra.Command, word string) *failure {
	f := usage("there is no command %q", cmd.CommandPath()+" "+word)
	if near := cmd.SuggestionsFor(word); len(near) > 0 {
		f.hint = "did you mean " + near[0] + "?"
	}
	return f.seeHelp(cmd)
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usage("%s takes no argument, got %q", cmd.CommandPath(), args[0])
}

// version returns the program's version and the protocol's.
func version() string {
	v := "devel"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		v = info.Main.Version
	}
	return "parley " + v + " (A2A " + a2a.Version + ")"
}

// Error codes of the specification, appendix D.
const (
	errUsage              = "A2ACLI_ERR_USAGE"
	errCardNotFound       = "A2ACLI_ERR_CARD_NOT_FOUND"
	errCardInvalid        = "A2ACLI_ERR_CARD_INVALID"
	errUnreachable        = "A2ACLI_ERR_UNREACHABLE"
	errCredentialsMissing = "A2ACLI_ERR_CREDENTIALS_MISSING" //nolint:gosec // the name of an error
	errAuthFailed         = "A2ACLI_ERR_AUTH_FAILED"
	errTimeout            = "A2ACLI_ERR_TIMEOUT"
	errInternal           = "A2ACLI_ERR_INTERNAL"
)

// exitOf maps the codes whose exit code is not 1 (specification 11.6).
var exitOf = map[string]int{
	errUsage: 2, errCardNotFound: 3, errUnreachable: 3, errCredentialsMissing: 4, errAuthFailed: 4, errTimeout: 5,
}

// failure is an error as it is reported: by its code, in words, and with what to do next.
type failure struct {
	code    string // an error name of the protocol, or A2ACLI_ERR_…
	exit    int
	message string
	hint    string        // empty: what hintOf and hintOfAgent have for the code
	a2aCode a2a.ErrorCode // zero: the agent said nothing
	told    bool          // the result on stdout says it, for programs
	key     string        // the setting of serve that it is about, see wrong
}

func (f *failure) Error() string { return f.message }

func fail(code, hint, format string, args ...any) *failure {
	exit, ok := exitOf[code]
	if !ok {
		exit = 1
	}
	return &failure{code: code, exit: exit, hint: hint, message: fmt.Sprintf(format, args...)}
}

func usage(format string, args ...any) *failure { return fail(errUsage, "", format, args...) }

// seeHelp ends the hint of a usage error with where the command's flags are explained.
func (f *failure) seeHelp(cmd *cobra.Command) *failure {
	if f.code != errUsage || strings.Contains(f.hint, "--help") {
		return f
	}
	see := "see " + cmd.CommandPath() + " --help"
	if f.hint == "" {
		f.hint = see
		return f
	}
	return f.also(see)
}

// failureOf classifies an error (specification 11.4): what the protocol has a name for keeps that name.
func failureOf(err error) *failure {
	var f *failure
	var e *a2a.Error
	message := strings.ReplaceAll(strings.TrimPrefix(err.Error(), "client: "), "\n", "; ") // joined errors have a line each
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, client.ErrUnreachable):
		return fail(errUnreachable, unreachableHint(err), "%s", message)
	case errors.Is(err, client.ErrCardNotFound):
		return fail(errCardNotFound, "", "%s", message)
	case errors.Is(err, client.ErrCardInvalid):
		return fail(errCardInvalid, invalidCardHint(err), "%s", message)
	case errors.As(err, &e):
		return protocolFailure(e)
	}
	return fail(errInternal, "", "%s", message)
}

func protocolFailure(e *a2a.Error) *failure {
	f := &failure{code: e.Code.Name(), exit: 1, message: e.Error(), a2aCode: e.Code}
	switch e.Code {
	case a2a.ErrUnauthenticated, a2a.ErrPermissionDenied:
		f.code, f.exit = errAuthFailed, 4
	case a2a.ErrUnavailable:
		f.code, f.exit = errUnreachable, 3
	case a2a.ErrExtensionSupportRequired:
		if uri := e.Metadata["extension"]; uri != "" {
			f.hint = strings.ReplaceAll(hintOfAgent[e.Code], "URI", uri)
		}
	default:
	}
	return f
}

// report writes a failure: as the envelope of appendix B on stdout, or for people on stderr.
func (a *app) report(f *failure) {
	if !a.json {
		name := ""
		if f.a2aCode != 0 {
			name = " (" + f.code + ")"
		}
		fmt.Fprintf(a.err, "Error: %s%s\n", visible(f.message), name) //nolint:errcheck // there is nowhere left to say so
		if hint := f.advice(); hint != "" {
			fmt.Fprintf(a.err, "Hint: %s\n", visible(hint)) //nolint:errcheck // as above
		}
		return
	}
	if f.told {
		return
	}
	var out envelope
	out.Error.Code, out.Error.Message = f.code, f.message
	if hint := f.advice(); hint != "" {
		out.Error.Hint = &hint
	}
	if f.a2aCode != 0 {
		out.Error.A2ACode = &f.a2aCode
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(out) // they are strings and a number
	if _, err := a.out.Write(visibleJSON(b.Bytes())); err != nil {
		fmt.Fprintf(a.err, "Error: %s\n", visible(f.message)) //nolint:errcheck // there is nowhere left to say so
	}
}

// envelope is the error object of appendix B.
type envelope struct {
	Error struct {
		Code    string         `json:"code"`
		Message string         `json:"message"`
		Hint    *string        `json:"hint"`
		A2ACode *a2a.ErrorCode `json:"a2aCode"`
	} `json:"error"`
}

// asksForJSON reports whether a command line asks for JSON, for errors that come before its flags are
// understood.
func asksForJSON(args []string) bool {
	value := os.Getenv(envName("output"))
	for i, arg := range args {
		if arg == "--" {
			break
		}
		next := slices.Concat(args[i+1:], []string{""})[0]
		switch name, v, _ := strings.Cut(arg, "="); {
		case arg == "-o", arg == "--output":
			value = next
		case name == "--output", name == "-o":
			value = v
		case arg == "-ojson":
			value = "json"
		}
	}
	return value == "json"
}
