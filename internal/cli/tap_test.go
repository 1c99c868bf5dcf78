package cli

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestTapScripts runs testdata/tap/*.txtar against real processes. Besides the commands of TestScripts there are:
//
//	tap [flags]            starts parley tap on a free port and sets $TAP, its URL
//	end-tap N              sends it SIGTERM and wants the exit code N
//	stdout-of-tap regexp   wants it in the tap's first line
//	stderr-of-tap regexp   wants it, or with ! does not, in the tap's log, after its end
//	call URL BODY          posts JSON without any of the protocol's headers
func TestTapScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/tap",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serve": serveCmd, "end": endCmd, "exit": exitCmd,
			"tap": tapCmd, "end-tap": endTapCmd, "stdout-of-tap": tapSaysCmd, "stderr-of-tap": tapLogsCmd, "call": callCmd,
		},
		Setup: func(env *testscript.Env) error {
			env.Values["served"], env.Values["tap"] = new(served), new(served)
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			return nil
		},
		RequireUniqueNames: true,
	})
}

func tapCmd(ts *testscript.TestScript, _ bool, args []string) {
	cmd := exec.Command("parley", append([]string{"tap", "--listen", "127.0.0.1:0"}, args...)...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(os.Environ(), "GORACE="+ts.Getenv("GORACE"))
	s := ts.Value("tap").(*served)
	*s = served{cmd: cmd, ended: make(chan error, 1), stderr: new(strings.Builder)}
	cmd.Stderr = s.stderr
	stdout, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	go func() { s.ended <- cmd.Wait() }()
	if err != nil {
		<-s.ended
		ts.Fatalf("parley tap ended before it was ready:\n%s", s.stderr)
	}
	ts.Setenv("TAPSAYS", line)
	if m := regexp.MustCompile(` at (\S+) `).FindStringSubmatch(line); m != nil {
		ts.Setenv("TAP", m[1])
	}
}

func tapSaysCmd(ts *testscript.TestScript, _ bool, args []string) {
	if line := ts.Getenv("TAPSAYS"); !regexp.MustCompile(args[0]).MatchString(line) {
		ts.Fatalf("parley tap says %q", line)
	}
}

func tapLogsCmd(ts *testscript.TestScript, neg bool, args []string) {
	log := ts.Value("tap").(*served).stderr.String()
	if regexp.MustCompile(args[0]).MatchString(log) == neg {
		ts.Fatalf("parley tap logs\n%s", log)
	}
}

func endTapCmd(ts *testscript.TestScript, _ bool, args []string) {
	s := ts.Value("tap").(*served)
	ts.Check(s.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-s.ended:
		if code := s.cmd.ProcessState.String(); code != "exit status "+args[0] {
			ts.Fatalf("parley tap: %s, want %s\n%s", code, args[0], s.stderr)
		}
	case <-time.After(patience):
		ts.Fatalf("parley tap has not ended")
	}
}

func callCmd(ts *testscript.TestScript, _ bool, args []string) {
	req, err := http.NewRequest(http.MethodPost, args[0], strings.NewReader(args[1]))
	ts.Check(err)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	ts.Check(err)
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
}
