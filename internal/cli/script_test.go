package cli

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"database/sql"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"parley": func() { os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// TestScripts runs testdata/script/*.txtar against real processes. Besides the commands of testscript there are:
//
//	serve [flags]          starts parley serve on free ports and sets $URL, $GRPC and $READY, its line
//	serve -as-is [flags]   the same at the addresses that the flags and the environment name
//	end                    sends it SIGTERM and wants it to exit with 0
//	hangup TEXT            sends it SIGHUP and waits until its log says the text
//	end-at-once            sends it SIGTERM again and again and wants the signal to end it
//	exit N program args    runs a program and wants the exit code N
//	capture NAME regexp    sets $NAME to what the first group matches in the last stdout
//	certificate CERT KEY   makes a certificate for 127.0.0.1 that signs itself
//	blocked                listens at an address that it sets as $ADDR, and answers nobody
//	issuer                 starts an authorization server: $ISSUER, ca.pem and keys.json
//	damage FILE            takes records out of the logs of a store
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serve": serveCmd, "end": endCmd, "hangup": hangupCmd, "end-at-once": endAtOnceCmd, "exit": exitCmd, "capture": captureCmd, "blocked": blockedCmd, "certificate": certificateCmd,
			"damage": damageCmd, "issuer": issuerCmd,
		},
		Setup: func(env *testscript.Env) error {
			env.Values["served"] = new(served)
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
			env.Setenv("GORACE", "atexit_sleep_ms=0") // every process of a script would wait a second at its end
			return nil
		},
		RequireUniqueNames: true,
	})
}

// served is the host of a script.
type served struct {
	cmd    *exec.Cmd
	ended  chan error
	stderr *strings.Builder
	log    *servedLog
}

// servedLog is what a process writes, for who waits for it.
type servedLog struct {
	mu   sync.Mutex
	more *sync.Cond
	text strings.Builder
}

func newServedLog() *servedLog {
	s := new(servedLog)
	s.more = sync.NewCond(&s.mu)
	return s
}

// Write implements io.Writer.
func (s *servedLog) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.more.Broadcast()
	return s.text.Write(b)
}

func (s *servedLog) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// wait waits until the text comes that was written after a place.
func (s *servedLog) wait(text string, after int) bool {
	late := false
	timer := time.AfterFunc(patience, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		late = true
		s.more.Broadcast()
	})
	defer timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !strings.Contains(s.text.String()[after:], text) {
		if late {
			return false
		}
		s.more.Wait()
	}
	return true
}

func hangupCmd(ts *testscript.TestScript, _ bool, args []string) {
	s := ts.Value("served").(*served)
	after := len(s.log.String())
	ts.Check(s.cmd.Process.Signal(syscall.SIGHUP))
	if !s.log.wait(args[0], after) {
		ts.Fatalf("parley serve does not say %q:\n%s", args[0], s.log)
	}
}

func serveCmd(ts *testscript.TestScript, _ bool, args []string) {
	flags := []string{"serve", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0"}
	if len(args) > 0 && args[0] == "-as-is" {
		flags, args = []string{"serve"}, args[1:]
	}
	cmd := exec.Command("parley", append(flags, args...)...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+ts.MkAbs("state"))
	for _, name := range []string{"GORACE", "HOST", "PORT", "AGENT_NAME", "PUBLIC_URL", "PUBLIC_GRPC_URL"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	s := ts.Value("served").(*served)
	*s = served{cmd: cmd, ended: make(chan error, 1), stderr: new(strings.Builder), log: newServedLog()}
	cmd.Stderr = io.MultiWriter(s.stderr, s.log)
	stdout, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	go func() { s.ended <- cmd.Wait() }()
	if err != nil {
		<-s.ended
		ts.Fatalf("parley serve ended before it was ready:\n%s", s.stderr)
	}
	line = strings.TrimSuffix(line, "\n")
	ts.Setenv("READY", line)
	for name, re := range map[string]string{"URL": ` at (\S+) `, "GRPC": `, grpc (\S+)$`} {
		if m := regexp.MustCompile(re).FindStringSubmatch(line); m != nil {
			ts.Setenv(name, m[1])
		}
	}
}

// patience is less than the default grace: a host that ends after it did not do as it was told.
const patience = 8 * time.Second

func endCmd(ts *testscript.TestScript, _ bool, _ []string) {
	s := ts.Value("served").(*served)
	ts.Check(s.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-s.ended:
		if err != nil {
			ts.Fatalf("parley serve: %v\n%s", err, s.stderr)
		}
	case <-time.After(patience):
		ts.Fatalf("parley serve has not ended")
	}
}

func endAtOnceCmd(ts *testscript.TestScript, _ bool, _ []string) {
	s := ts.Value("served").(*served)
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	enough := time.After(patience)
	for {
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-again.C:
		case <-enough:
			ts.Fatalf("parley serve has not ended")
		case err := <-s.ended:
			status, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus)
			if !ok || !status.Signaled() || status.Signal() != syscall.SIGTERM {
				ts.Fatalf("parley serve: %v, want the end by SIGTERM", err)
			}
			return
		}
	}
}

func exitCmd(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	if e := new(exec.ExitError); errors.As(err, &e) {
		got = e.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func captureCmd(ts *testscript.TestScript, _ bool, args []string) {
	m := regexp.MustCompile("(?m)" + args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if m == nil {
		ts.Fatalf("no match for %q in stdout", args[1])
	}
	ts.Setenv(args[0], m[1])
}

func blockedCmd(ts *testscript.TestScript, _ bool, _ []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	ts.Setenv("ADDR", l.Addr().String())
}

func damageCmd(ts *testscript.TestScript, _ bool, args []string) {
	db, err := sql.Open("sqlite", ts.MkAbs(args[0]))
	ts.Check(err)
	defer func() { _ = db.Close() }()
	_, err = db.Exec("DELETE FROM log WHERE generation = 2")
	ts.Check(err)
}

func certificateCmd(ts *testscript.TestScript, _ bool, args []string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ts.Check(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	ts.Check(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
}
