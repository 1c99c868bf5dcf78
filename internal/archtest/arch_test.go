// Package archtest holds the repository to its layout: who may import whom, and what no file may say.
package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/parley-a2a/parley"

// anything, in an allowed list, takes every check off the package.
const anything = "*"

// External modules, by the import paths that a package may use. A path allows what is below it.
const (
	btree       = "github.com/tidwall/btree"
	cmp         = "github.com/google/go-cmp/cmp"
	genprotoAPI = "google.golang.org/genproto/googleapis/api"
	genproto    = "google.golang.org/genproto/googleapis/rpc"
	goose       = "github.com/pressly/goose/v3"
	grpc        = "google.golang.org/grpc"
	jcs         = "github.com/gowebpki/jcs"
	jose        = "github.com/go-jose/go-jose/v4"
	modernc     = "modernc.org/sqlite"
	pgx         = "github.com/jackc/pgx/v5"
	otel        = "go.opentelemetry.io/otel"
	proto       = "google.golang.org/protobuf"
	rate        = "golang.org/x/time/rate"
	schema      = "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	ssrf        = "code.dny.dev/ssrf"
	text        = "golang.org/x/text"
	uax29       = "github.com/clipperhouse/uax29/v2"
	uuid        = "github.com/google/uuid"
)

// allowed is the layout of docs/design.md, section 2: for each package what it may import besides the
// standard library. Test files are exempt. A package that is missing here is an error.
var allowed = map[string][]string{
	"internal/jsonx":  {},
	"internal/single": {},
	"a2a":             {"internal/jsonx", "internal/single"},

	"internal/op":    {"a2a"},
	"internal/sse":   {},
	"internal/room":  {"a2a"},
	"internal/httpx": {"a2a", "internal/jsonx", "internal/op", "internal/room", "internal/sse"},
	"agent":          {"a2a", "internal/jsonx", "internal/single", uuid},
	"extension":      {"a2a", jcs},

	"taskstore":           {"a2a", btree},
	"taskstore/storetest": {"a2a", "taskstore", cmp},
	"taskstore/sqlite":    {"a2a", "taskstore", "internal/taskcodec", goose, modernc},

	"binding/jsonrpc":               {"a2a", "internal/httpx", "internal/jsonx", "internal/op", "internal/sse"},
	"binding/rest":                  {"a2a", "internal/httpx", "internal/jsonx", "internal/op", "internal/sse"},
	"binding/grpc":                  {"a2a", "internal/op", "internal/room", genproto, grpc, proto, schema},
	"server":                        {"a2a", "agent", "extension", "internal/jsonx", "internal/single", "taskstore", jcs, uuid},
	"approval":                      {"a2a", "agent", "extension", uuid},
	"delegation":                    {"a2a", "agent", "extension", "internal/netguard"},
	"auth":                          {"a2a", "internal/netguard", "internal/op", grpc, jose},
	"limits":                        {"a2a", rate},
	"internal/child":                {"a2a", "agent", "golang.org/x/sys"},
	"internal/child/childtest":      {uuid},
	"command":                       {"a2a", "agent", "internal/child", "internal/jsonx"},
	"acp":                           {"a2a", "agent", "internal/child", "internal/jsonx", uuid},
	"proxy":                         {"a2a", "agent", "auth", "client", "delegation", "extension", uuid},
	"internal/taskcodec":            {"a2a", "taskstore"},
	"rules":                         {"a2a", "internal/op", genproto, genprotoAPI, proto, schema},
	"conformance":                   {"a2a", "agentcard", "binding/grpc", "client", "internal/op", "rules", grpc, proto},
	"tap":                           {"a2a", "agentcard", "extension", "internal/op", "rules", proto, schema},
	"console":                       {"a2a", "agentcard", "binding/rest", "rules", "tap", "taskstore"},
	"examples/stock":                {anything},
	"examples/deployer":             {anything},
	"examples/planner":              {anything},
	"examples/testrunner":           {anything},
	"examples/internal/issuer":      {jose, uuid},
	"examples/internal/exampletest": {"a2a", "internal/loopback"},
	"agentcard":                     {"a2a", "internal/jsonx", jcs, jose},
	"audit":                         {"a2a"},
	"telemetry":                     {"a2a", "agent", "taskstore", otel},
	"internal/netguard":             {ssrf},
	"taskstore/postgres":            {"a2a", "taskstore", "internal/taskcodec", goose, pgx, uuid},
	"push":                          {"a2a", "taskstore", "internal/netguard", "internal/httpx", otel, uuid, rate, ssrf},

	"client": {"a2a", "agentcard", "binding/grpc", "binding/jsonrpc", "binding/rest", "extension", "internal/httpx", "internal/op", grpc, uuid},

	".": {"a2a", "agent", "agentcard", "auth", "limits", "extension", "binding/grpc", "binding/jsonrpc", "binding/rest", "internal/httpx", "server", "taskstore", grpc},

	"examples/revisor/textstats": {"a2a", "agent", text, uax29},
	"examples/revisor":           {".", "examples/revisor/textstats"},
	"internal/agents":            {"a2a", "agent", "examples/revisor/textstats", uuid},

	"internal/cli": {anything},
	"cmd/parley":   {"internal/cli"},

	"internal/archtest":   {},
	"internal/crash":      {},
	"internal/cells":      {},
	"internal/loopback":   {},
	"internal/pgtest":     {pgx},
	"internal/natshints":  {"github.com/nats-io/nats.go"},
	"internal/crash/host": {anything},
	"internal/golden":     {anything},
	"internal/script":     {"a2a", "agent"},
	"internal/threats":    {},
	"examples/greeter":    {".", "a2a", "agent"},
	"interop/js":          {},
	"interop/card":        {},
	"interop/acp":         {},
}

// keptOut is what the root package must not link, however far down: whoever embeds a host would get it too.
var keptOut = []string{
	"database/sql", "testing", // a driver; a test suite
	module + "/taskstore/sqlite", module + "/taskstore/postgres", module + "/taskstore/storetest",
	module + "/acp", module + "/command", module + "/proxy", // bridges
	module + "/tap", module + "/console", module + "/conformance", module + "/rules", // a web page, and what is for tools
	module + "/internal/cli", module + "/internal/golden",
	module + "/telemetry", "go.opentelemetry.io/otel/sdk", // whoever wants it wraps with it
}

type goPackage struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Deps       []string
}

// relative returns the path of a package inside the module, "." for the root.
func relative(path string) (string, bool) {
	if path == module {
		return ".", true
	}
	return strings.CutPrefix(path, module+"/")
}

func list(t *testing.T) map[string]*goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Standard,Imports,Deps", module+"/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, stderr.Bytes())
	}
	pkgs := map[string]*goPackage{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(goPackage)
		if err := dec.Decode(p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs[p.ImportPath] = p
	}
}

func TestImports(t *testing.T) {
	pkgs := list(t)
	for _, p := range pkgs {
		name, ok := relative(p.ImportPath)
		if !ok {
			continue
		}
		may, ok := allowed[name]
		if !ok {
			t.Errorf("package %s is not in the table of this test: add what it may import, and docs/design.md section 2", name)
			continue
		}
		for _, imp := range p.Imports {
			if to := pkgs[imp]; to != nil && to.Standard || imp == "C" || mayImport(may, imp) {
				continue
			}
			t.Errorf("%s imports %s, which the table of this test does not allow", name, imp)
		}
	}
}

func mayImport(may []string, path string) bool {
	if slices.Contains(may, anything) {
		return true
	}
	if name, ok := relative(path); ok {
		return slices.Contains(may, name)
	}
	return slices.ContainsFunc(may, func(m string) bool { return path == m || strings.HasPrefix(path, m+"/") })
}

func TestRootIsLean(t *testing.T) {
	root := list(t)[module]
	if root == nil {
		t.Fatalf("package %s was not found", module)
	}
	for _, dep := range root.Deps {
		if slices.Contains(keptOut, dep) {
			t.Errorf("the root package links %s", dep)
		}
	}
}

// buildPath matches an absolute path of a machine that somebody works on.
var buildPath = regexp.MustCompile(`(^|[^\w./~-])/(work|root|home)/[\w.-]`)

func TestNoPathOfABuildMachine(t *testing.T) {
	for _, line := range []string{`see "/` + `work/x"`, "/" + `root/go`, `a=/` + `home/me`} {
		if !buildPath.MatchString(line) {
			t.Errorf("the pattern misses %q", line)
		}
	}
	root := filepath.Join("..", "..")
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("not a git checkout: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || bytes.IndexByte(data, 0) >= 0 { // removed, a submodule, or no text
			continue
		}
		n := 0
		for line := range bytes.Lines(data) {
			if n++; buildPath.Match(line) {
				t.Errorf("%s:%d names a path of a build machine: %.120s", name, n, bytes.TrimSpace(line))
			}
		}
	}
}
