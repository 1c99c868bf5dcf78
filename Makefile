# "make help" lists the targets. A fresh clone needs Go, Node 20 or newer for interop/js and interop/card, and Python
# 3 with venv for interop/card.

PARLEY   := $(CURDIR)/bin/parley
LINT     := bin/golangci-lint-$(shell sed -n 's|.*/golangci-lint/v2 \(v[^ ]*\).*|\1|p' tools/go.mod)
COUNT    ?= 6
FUZZTIME ?= 30s

.PHONY: build test race crash cluster-test threats threats-off vuln lint format bench bench-smoke bench-go benchstat fuzz tck qwen clean help

build: ## build bin/parley
	@go build -o $(PARLEY) ./cmd/parley

test: build ## vet and test everything, hold docs/threats.md to it, with the official Go and JavaScript SDKs as peers
	@go vet ./...
	@go -C interop/go vet ./...
	@command -v node >/dev/null || echo 'SKIP interop/js: node is not installed'
	@command -v python3 >/dev/null || echo 'SKIP interop/card: python3 is not installed'
	@PARLEY_BIN=$(PARLEY) go run ./internal/threats ./...
	@PARLEY_BIN=$(PARLEY) go -C interop/go test -count=1 ./...

race: ## the same tests under the race detector, the host of the interop tests too
	@go build -race -o $(PARLEY)-race ./cmd/parley
	@PARLEY_BIN=$(PARLEY)-race go test -race ./...
	@PARLEY_BIN=$(PARLEY)-race go -C interop/go test -count=1 ./...

crash: ## kill a host 50 times under load and look for all that it acknowledged
	@CRASH_ROUNDS=$${CRASH_ROUNDS:-50} CRASH_OUTAGE=$${CRASH_OUTAGE:-30s} go test -count=1 -v -timeout 15m ./internal/crash

cluster-test: ## kill nodes and their database under load, CLUSTER_ROUNDS times, and look for all that they acknowledged
	@CLUSTER_ROUNDS=$${CLUSTER_ROUNDS:-5} go test -count=1 -v -timeout 30m -run '^TestCluster' ./internal/crash

threats: ## run the tests that docs/threats.md names: a line for each row and binding
	@go run ./internal/threats

threats-off: ## take the control of each row of docs/threats.md away and want that row to fail, ten minutes
	@go run ./internal/threats -off

vuln: ## look for known vulnerabilities in what is linked, as vuln.go.dev knows them
	@out=$$(go -C tools tool govulncheck -C .. ./... 2>&1); status=$$?; echo "$$out"; case "$$status $$out" in \
	'0 '*) ;; \
	*'fetching vulnerabilities: '*) echo 'NOT CHECKED: vuln.go.dev cannot be reached from here; run "make vuln" where it can be' ;; \
	*) exit $$status ;; esac

lint: $(LINT) ## run the linters of .golangci.yml
	@$(LINT) run ./...
	@cd interop/go && ../../$(LINT) run --config ../../.golangci.yml ./...

format: $(LINT) ## gofumpt every file
	@$(LINT) fmt ./...
	@cd interop/go && ../../$(LINT) fmt --config ../../.golangci.yml ./...

$(LINT): tools/go.mod tools/go.sum
	@echo 'building $(@F), a few minutes the first time'
	@go -C tools build -trimpath -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

bench: ## measure Parley beside the floor and the SDKs of others, and write docs/performance.md, 15 minutes
	@mkdir -p bin
	@go -C bench run .

bench-smoke: ## compare allocations and ratios with the budget in docs/performance.md, a minute
	@go -C bench vet ./...
	@go -C bench test .
	@go -C bench run . -smoke

bench-go: ## run every benchmark of the packages COUNT times into bin/bench.txt
	@mkdir -p bin
	@go test -run '^$$' -bench . -benchmem -count $(COUNT) ./... | tee bin/bench.txt

benchstat: ## compare two runs: make benchstat OLD=old.txt NEW=bin/bench.txt
	@go -C tools tool benchstat $(abspath $(OLD)) $(abspath $(NEW))

fuzz: ## run every fuzz target for FUZZTIME
	@grep -rHo --include='*_test.go' --exclude-dir=node_modules '^func Fuzz[A-Za-z0-9_]*' . | \
	sed 's|/[^/]*:func | |' | sort | while read -r dir name; do \
		echo "$$dir $$name"; \
		go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$dir" || exit 1; \
	done

# The official kit cannot be part of this repository: docs/conformance.md says how to set it up.
tck: build ## run the official A2A TCK: make tck TCK=../a2a-tck
	@test -x '$(TCK)/.venv/bin/python' || { echo 'make tck TCK=DIR: DIR is a checkout with its .venv, see docs/conformance.md'; exit 2; }
	@log=$$(mktemp) && { $(PARLEY) serve --listen 127.0.0.1:0 --grpc-listen 127.0.0.1:0 --agent conformance --store memory: --allow-private-webhooks >$$log & } && \
	trap "kill $$!; rm -f $$log" EXIT && until grep -q ' at ' $$log; do kill -0 $$! || exit 1; sleep 0.1; done && \
	url=$$(sed 's/.* at \([^ ]*\) .*/\1/' $$log) && cd '$(TCK)' && \
	.venv/bin/python run_tck.py --sut-host "$$url" -v -- --webhook-host localhost

qwen: build ## run Qwen Code, an agent that people use, behind the ACP bridge with a stub of a model
	@mkdir -p bin/qwen && npm install --prefix bin/qwen --ignore-scripts --no-audit --no-fund --silent @qwen-code/qwen-code@0.24.4
	@QWEN_BIN=$(CURDIR)/bin/qwen/node_modules/.bin/qwen PARLEY_BIN=$(PARLEY) go test -count=1 -v -run TestQwen ./interop/acp

clean: ## remove what was built
	@rm -rf bin bench/a2ajs/node_modules interop/js/node_modules interop/card/node_modules interop/card/.venv

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 16
