# "make help" lists the targets. A fresh clone needs Go, Node 20 or newer for interop/js and interop/card, and Python
# 3 with venv for interop/card.

PARLEY   := $(CURDIR)/bin/parley
LINT     := bin/golangci-lint-$(shell sed -n 's|.*/golangci-lint/v2 \(v[^ ]*\).*|\1|p' tools/go.mod)
COUNT    ?= 6
FUZZTIME ?= 30s

.PHONY: build test race crash threats lint format bench benchstat fuzz tck clean help

build: ## build bin/parley
	@go build -o $(PARLEY) ./cmd/parley

test: build ## vet and test everything, with the official Go and JavaScript SDKs as peers
	@go vet ./...
	@go -C interop/go vet ./...
	@command -v node >/dev/null || echo 'SKIP interop/js: node is not installed'
	@command -v python3 >/dev/null || echo 'SKIP interop/card: python3 is not installed'
	@PARLEY_BIN=$(PARLEY) go test ./...
	@PARLEY_BIN=$(PARLEY) go -C interop/go test -count=1 ./...

race: ## the same tests under the race detector, the host of the interop tests too
	@go build -race -o $(PARLEY)-race ./cmd/parley
	@PARLEY_BIN=$(PARLEY)-race go test -race ./...
	@PARLEY_BIN=$(PARLEY)-race go -C interop/go test -count=1 ./...

crash: ## kill a host 50 times under load and look for all that it acknowledged
	@CRASH_ROUNDS=$${CRASH_ROUNDS:-50} CRASH_OUTAGE=$${CRASH_OUTAGE:-30s} go test -count=1 -v -timeout 15m ./internal/crash

threats: ## run the tests of docs/threats.md that go over the wire: a line for each row and binding
	@go test -count=1 -v -run 'TestThreat|TestForeignTasks' . | \
	sed -nE 's/^ *--- (PASS|FAIL): TestThreat([AB][0-9]+)[^/]*\/([^ ]+).*/\2 \3 \1/p'

lint: $(LINT) ## run the linters of .golangci.yml
	@$(LINT) run ./...
	@cd interop/go && ../../$(LINT) run --config ../../.golangci.yml ./...

format: $(LINT) ## gofumpt every file
	@$(LINT) fmt ./...
	@cd interop/go && ../../$(LINT) fmt --config ../../.golangci.yml ./...

$(LINT): tools/go.mod tools/go.sum
	@echo 'building $(@F), a few minutes the first time'
	@go -C tools build -trimpath -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

bench: ## run every benchmark COUNT times into bin/bench.txt
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

clean: ## remove what was built
	@rm -rf bin interop/js/node_modules interop/card/node_modules interop/card/.venv

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 12
