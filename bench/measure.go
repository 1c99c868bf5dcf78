package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// system is a server under test.
type system struct {
	name    string
	program string // one of ./cmd, or node
	args    string
	extra   int    // entries of its streams beside those of the floor
	warm    string // how long it needs to be fast; empty: as long as the workload says
}

var (
	floor  = system{name: "floor", program: "floor", args: "-codec v1"}
	best   = system{name: "best floor", program: "floor", args: "-codec hand -flush batch -cache"}
	memory = system{name: "Parley, memory", program: "parley", extra: 1}
	file   = system{name: "Parley, SQLite", program: "parley", extra: 1}
	a2aGo  = system{name: "a2a-go", program: "a2ago"}
	a2aJS  = system{name: "a2a-js", program: "node", args: "--expose-gc a2ajs/server.mjs 7001 7003", warm: "2500ms"}
)

// sample is what was measured of one system on one workload.
type sample struct {
	Workload string `json:"workload"`
	System   string `json:"system"`
	X        int    `json:"x,omitempty"` // the point of a curve
	Rep      int    `json:"rep"`

	CPU      float64 `json:"cpu_us"`    // µs of the server's user and system time, a request
	CPUEvent float64 `json:"cpu_us_ev"` // the same, an event
	RPS      float64 `json:"rps"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	Other    float64 `json:"other_util"` // processors that other programs used meanwhile
	Peak     int     `json:"hwm_kb"`     // resident, with what was stored before
	Base     int     `json:"base_kb"`    // resident at the start
	Heap     int     `json:"heap"`       // live bytes after the tasks were stored, less those at the start
	Allocs   float64 `json:"allocs"`     // a request, where they were counted
	Err      string  `json:"err,omitempty"`
}

// load is what is asked of a server: -extra is left to the system.
type load struct {
	args   string
	fill   int // tasks stored before, over the wire
	stored int // tasks stored before, past the wire; only Parley
	allocs int // requests over which allocations are counted, instead of the time; zero: none
}

// rig starts servers and loads them: the server on the first processor, the load on the second.
type rig struct {
	bin, data string
	files     map[int]string // with so many tasks
}

var admin = http.Client{Timeout: 2 * time.Minute}

// newRig builds the programs.
func newRig(ctx context.Context, data string) (*rig, error) {
	if _, err := exec.LookPath("taskset"); err != nil {
		return nil, errors.New("bench needs Linux with taskset (util-linux) and two processors")
	}
	if out, err := exec.CommandContext(ctx, "taskset", "-c", "1", "true").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("bench needs two processors: %s", out)
	}
	for _, port := range []string{"7001", "7002", "7003"} {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:"+port)
		if err != nil {
			return nil, fmt.Errorf("port %s must be free: %w", port, err)
		}
		_ = l.Close()
	}
	dir, err := os.MkdirTemp(data, "parley-bench-")
	if err != nil {
		return nil, err
	}
	r := &rig{bin: dir, data: dir, files: map[int]string{}}
	build := exec.CommandContext(ctx, "go", "build", "-o", dir+"/", "./cmd/...") //nolint:gosec // our own programs
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, errors.Join(fmt.Errorf("build: %w", err), r.Close())
	}
	return r, nil
}

// Close removes what the rig made.
func (r *rig) Close() error { return os.RemoveAll(r.data) }

// installJS installs the JavaScript SDK, or says why not.
func installJS(ctx context.Context) error {
	for _, p := range []string{"node", "npm"} {
		if _, err := exec.LookPath(p); err != nil {
			return fmt.Errorf("%s is not installed", p)
		}
	}
	if _, err := os.Stat("a2ajs/node_modules/@a2a-js/sdk"); err == nil {
		return nil
	}
	npm := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund")
	npm.Dir = "a2ajs"
	if out, err := npm.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	return nil
}

// measure starts a fresh server of the system, loads it and says what that cost.
func (r *rig) measure(ctx context.Context, s system, l load) (out sample) {
	out.System = s.name
	srv, err := r.start(ctx, s, l.stored)
	if err != nil {
		out.Err = err.Error()
		return out
	}
	defer srv.stop()
	if err := r.load(ctx, srv, s, l, &out); err != nil {
		out.Err = err.Error()
	}
	return out
}

func (r *rig) load(ctx context.Context, srv *server, s system, l load, out *sample) error {
	var err error
	if out.Base, err = resident(srv.pid()); err != nil {
		return err
	}
	before, err := collect(ctx)
	if err != nil {
		return err
	}
	if l.fill > 0 {
		if err := r.generate(ctx, srv, "-w fill -n 16 -count "+strconv.Itoa(l.fill), out); err != nil {
			return err
		}
		peak := out.Peak
		after, err := collect(ctx)
		if err != nil {
			return err
		}
		out.Heap = after.Heap - before.Heap
		defer func() { out.Peak = peak }() // of the tasks, not of the readers that come after
	}
	args := l.args
	if s.extra > 0 && strings.Contains(args, "-w W4") {
		args += " -extra " + strconv.Itoa(s.extra)
	}
	if s.warm != "" {
		args += " -warm " + s.warm // the last one counts
	}
	if l.allocs == 0 {
		err := r.generate(ctx, srv, args, out)
		if err == nil && out.CPU == 0 && out.CPUEvent == 0 {
			err = fmt.Errorf("loadgen %s: no answer in the window: other programs need the processors", args)
		}
		return err
	}
	if err := r.generate(ctx, srv, args+" -count 500", out); err != nil { // what is allocated once
		return err
	}
	if before, err = collect(ctx); err != nil {
		return err
	}
	if err := r.generate(ctx, srv, args+" -count "+strconv.Itoa(l.allocs), out); err != nil {
		return err
	}
	after, err := collect(ctx)
	out.Allocs = float64(after.Mallocs-before.Mallocs) / float64(l.allocs)
	return err
}

// generate runs the load generator and reads its figures into out.
func (r *rig) generate(ctx context.Context, srv *server, args string, out *sample) error {
	all := append([]string{"-c", "1", filepath.Join(r.bin, "loadgen"), "-pid", strconv.Itoa(srv.pid())}, strings.Fields(args)...)
	cmd := exec.CommandContext(ctx, "taskset", all...) //nolint:gosec // our own program
	var stderr strings.Builder
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("loadgen %s: %w: %s%s", args, err, stderr.String(), srv.stderr.String())
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("loadgen %s: %w", args, err)
	}
	if out.Err != "" {
		return fmt.Errorf("loadgen %s: %s", args, out.Err)
	}
	return nil
}

// server is a running system.
type server struct {
	cmd    *exec.Cmd
	stderr strings.Builder
}

func (s *server) pid() int { return s.cmd.Process.Pid }

func (s *server) stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// start starts a system and waits until it answers.
func (r *rig) start(ctx context.Context, s system, stored int) (*server, error) {
	args := []string{"-c", "0"}
	if s.program == "node" {
		args = append(args, s.program)
	} else {
		args = append(args, filepath.Join(r.bin, s.program))
	}
	args = append(args, strings.Fields(s.args)...)
	switch {
	case s.name == file.name:
		path, err := r.file(ctx, stored)
		if err != nil {
			return nil, err
		}
		args = append(args, "-file", path)
	case stored > 0:
		args = append(args, "-fill", strconv.Itoa(stored))
	}
	srv := &server{cmd: exec.CommandContext(ctx, "taskset", args...)}
	srv.cmd.Stderr = &srv.stderr
	srv.cmd.Env = append(os.Environ(), "NODE_ENV=production")
	if err := srv.cmd.Start(); err != nil {
		return nil, err
	}
	for range 3000 {
		if _, err := collect(ctx); err == nil {
			return srv, nil
		}
		select {
		case <-ctx.Done():
			srv.stop()
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	srv.stop()
	return nil, fmt.Errorf("%s does not start: %s", s.name, srv.stderr.String())
}

// file returns a file with so many tasks: an empty one is new, others are made once.
func (r *rig) file(ctx context.Context, stored int) (string, error) {
	if path := r.files[stored]; path != "" {
		return path, nil
	}
	dir, err := os.MkdirTemp(r.data, "file-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "tasks.db")
	if stored == 0 {
		return path, nil
	}
	fill := exec.CommandContext(ctx, filepath.Join(r.bin, "parley"), "-file", path, "-fill", strconv.Itoa(stored)) //nolint:gosec // our own program
	if out, err := fill.CombinedOutput(); err != nil {
		return "", fmt.Errorf("fill: %w: %s", err, out)
	}
	r.files[stored] = path
	return path, nil
}

// heap is what a server says of its memory after a collection.
type heap struct {
	Heap    int `json:"heap"`
	Mallocs int `json:"mallocs"`
}

func collect(ctx context.Context) (h heap, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:7003/admin/gc", nil)
	if err != nil {
		return h, err
	}
	res, err := admin.Do(req)
	if err != nil {
		return h, err
	}
	defer res.Body.Close()
	return h, json.NewDecoder(res.Body).Decode(&h)
}

// resident returns the resident memory of a process, in KiB.
func resident(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strconv.Atoi(strings.Fields(rest)[0])
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no VmRSS", pid)
}
