# Weir. `make` lists the targets. Nothing here installs anything on the machine.

GO   ?= go
LINT := $(GO) tool -modfile=tools/lint/go.mod golangci-lint
# For example: make race TESTFLAGS='-run Usage' PKG=./db/...
PKG  ?= ./...

.DEFAULT_GOAL := help
.PHONY: help build test race lint format generate verify web bench fuzz soak release image systems

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build ./weir
	$(GO) build -o weir .

test: ## Run all tests; what a test needs and does not find is skipped loudly
	$(GO) test -timeout 15m $(TESTFLAGS) $(PKG)

race: ## Run all tests under the race detector
	GO="$(GO)" .ci/race -timeout 15m $(TESTFLAGS) $(PKG)

lint: ## Run the linters, at the version pinned in tools/lint
	$(LINT) run $(PKG)

format: ## Format the Go code
	$(LINT) fmt $(PKG)

generate: ## Write the generated GraphQL code again
	$(GO) tool gqlgen generate

verify: ## Check that generated code and go.mod are current
	.ci/verify

web: ## Build the page (needs Node 20 and the packages of web/package-lock.json)
	cd web && npm run codegen && npm run build

bench: ## Measure Weir against what it stands on; fails over the limits
	$(GO) test -run '^$$' -bench . -benchtime 1x -timeout 30m ./server/bench ./runtime/sandbox/local
	$(GO) test -run '^$$' -bench 'Rollup|Booking' -benchtime 1x -timeout 30m ./db/store

release: ## Build the archives of all systems and their SHA256SUMS into dist
	$(GO) run ./tools/release

image: ## Build a container image into dist, without a container engine; then: docker load
	$(GO) run ./tools/release -image

systems: ## Build for other systems, and check what is written for them
	.ci/systems

# Two at a time, one core each. A finding is written to testdata/fuzz: commit it.
FUZZTIME ?= 10s
fuzz: ## Fuzz what reads output: each target for FUZZTIME (10s)
	@printf '%s\n' 'FuzzParse ./runtime/metricline' 'FuzzAgreesWithEncodingJSON ./runtime/metricline' 'FuzzSplitter ./runtime/sandbox' 'FuzzStream ./runtime/sandbox' 'FuzzDecoderDoesNotSeeThePieces ./runtime/sandbox' 'FuzzRead ./runtime/meter/pricebook' 'FuzzReader ./runtime/meter' | \
		xargs -P 2 -I{} sh -c 'GO="$(GO)" .ci/fuzz {} $(FUZZTIME)'

soak: ## The long randomised tests: 5 minutes of resuming, 50 rounds of kill -9 per store, 20 with every client, the bill after 50 kills and of 2,000 run trees per store, 200 quick exits, 10,000 starts that are cut off or crowded, every case and every way to fill a disk with every kind of server, a million lines through CPython, a million hostile files, a transcript of 1 GB, a thousand agents in one sweep
	cd web && WEIR_CLIENT_ROUNDS=20 npm run e2e -- clients
	WEIR_RESUME_SECONDS=300 WEIR_KILL_ROUNDS=50 $(GO) test -run 'TestResume|TestKill' -timeout 90m -v ./server/e2e
	WEIR_LEDGER_KILLS=50 WEIR_LEDGER_TREES=2000 $(GO) test -count 1 -run 'TestLedgerKilled|/Conservation' -timeout 60m -v ./db/store
	WEIR_EVERY_CASE=1 $(GO) test -count 1 -run 'TestCases' -timeout 30m -v ./server/e2e
	WEIR_READ_ROUNDS=200 $(GO) test -count 1 -run 'TestEveryLine|TestStartsThatAreCutOff|TestCloseDuringStarts|TestManyStarts' -timeout 60m -v ./runtime/sandbox/local
	WEIR_EVERY_FILL=1 $(GO) test -count 1 -run 'TestTheDiskLimitEnds' -timeout 30m -v ./runtime/sandbox/local
	WEIR_CPYTHON_LINES=1000000 $(GO) test -count 1 -run 'TestAgreesWithCPython' -timeout 30m -v ./runtime/metricline
	WEIR_SWEEP_RUNS=1000 $(GO) test -count 1 -parallel 1 -run 'TestSnapshotsOfManyAgents' -timeout 10m -v ./runtime/engine
	WEIR_HOSTILE_FILES=1000000 $(GO) test -run 'TestAHostileWorkspaceIsBounded' -timeout 90m -v ./runtime/engine
	WEIR_HOSTILE_FILES=1000000 $(GO) test -run 'TestManyFilesAreMeasured' -timeout 90m -v ./runtime/sandbox/local/disk
	WEIR_TRANSCRIPT_MB=1024 $(GO) test -count 1 -run 'TestMemoryStaysFlat' -timeout 30m -v ./runtime/meter
