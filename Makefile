# Every target is documented by the text behind ##; `make` alone shows them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Distributions pin this to "local", which cannot fetch the toolchain that
# go.mod names.
export GOTOOLCHAIN ?= auto

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
GO_FLAGS := -trimpath -ldflags "-s -w -X main.version=$(VERSION)"

# callcell-init has no C library. internal/testing/helpers has the same flags;
# a test of internal/tree holds the two together.
INIT_FLAGS := -std=c11 -Os -Wall -Wextra -Werror -static -nostdlib -nostartfiles -ffreestanding -fno-stack-protector \
	-fno-asynchronous-unwind-tables -fno-tree-loop-distribute-patterns -fcf-protection=none -fno-pic -no-pie \
	-Wl,--build-id=none -Wl,-z,noseparate-code -s
INIT_DIR := internal/launcher/init

STATICCHECK := go run honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Built for every platform: what others import.
PORTABLE := ./envelope/... $(if $(wildcard client),./client/...)

# Where goroutines meet. The launcher forks in ways that the race detector
# does not survive, and the cells' tests run it as a process.
RACE := ./envelope/... ./internal/audit/... ./internal/broker/... ./internal/cell ./internal/cleanup/... ./internal/credential/... ./internal/egress/... ./internal/gateway/... ./internal/guest/... ./internal/health ./internal/httpapi ./client ./internal/image ./internal/mcp/... ./internal/outward ./internal/packet/... ./internal/store/... ./internal/telemetry ./internal/trace ./internal/webhook

# The end-to-end tests whose calls run where CALLCELL_TEST_LEVEL says. TestOwnKernel
# plays a part of them at userkernel in every run.
AT_USERKERNEL := TestFirstInstruction|TestNextCall|TestCallsAreApart|TestSecretsOfCalls|TestOrdinary|TestNetworkCases|TestConnections|TestHalfOpen|TestMuchIs|TestTheEndOf|TestServersThat|TestNames|TestWhatIsNot|TestWithout|TestDenials|TestVariables|TestTheHosts|TestOperators|TestPackages|TestTheLogHas|TestAnyDeath|TestHostileNames|TestInspected|TestNoRequest|TestHello|TestDatabase|TestAddressesMay|TestHeader|TestAnswers|TestFileAnd|TestTheCellNever|TestAKilledCall

FUZZTIME ?= 10s

.PHONY: help
help: ## show the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## install what building and testing needs, where it is missing
	@scripts/setup

.PHONY: setup-test
setup-test:
	@scripts/setup --test

.PHONY: build
build: ## build bin/callcell and its helpers: callcell-launcher, callcell-egress, callcell-guest, callcell-image, callcell-init, callcell-runsc
	CGO_ENABLED=0 go build $(GO_FLAGS) -o bin/ ./cmd/callcell ./cmd/callcell-launcher ./cmd/callcell-egress ./cmd/callcell-guest ./cmd/callcell-image
	$(CC) $(INIT_FLAGS) -o bin/callcell-init $(INIT_DIR)/init.c $(INIT_DIR)/reaper.c
	scripts/build-runsc

.PHONY: run
run: setup build ## build, and run the examples in real cells
	scripts/run-examples

# The longest of the others first: no processor is to wait for one of them at the end.
LONGEST := ./internal/runtime/container ./internal/launcher ./internal/cli ./internal/runtime/userkernel

# The end-to-end tests run the product as it is installed, in the places of this
# host that the crash test of the command line looks into for what is left: one
# after the other.
.PHONY: test
test: setup-test check ## check, then every test and benchmark, the tests again with the race detector where goroutines meet, and on cgroup v2
	go test -timeout 60m $(LONGEST) $$(go list ./... | grep -v /internal/e2e)
	go test -timeout 60m ./internal/e2e
	go test -p 1 -run '^$$' -bench . -benchtime 1x $$(go list ./... | grep -v /internal/e2e) | grep -v 'no test files'
	go test -timeout 60m -race $(RACE)
	scripts/test-v2 --unless-native
	@$(MAKE) --no-print-directory clean-tree

.PHONY: test-v2
test-v2: setup ## the container and userkernel levels on cgroup v2, in virtual machines: five minutes or so without KVM
	scripts/test-v2

.PHONY: check
check: ## formatting, vet, staticcheck, builds for other platforms
	@unformatted=$$(gofmt -l $$(go list -f '{{.Dir}}' ./...)); \
	if [ -n "$$unformatted" ]; then echo "not formatted (gofmt -w):"; echo "$$unformatted"; exit 1; fi
	GOOS=linux GOARCH=amd64 go vet ./...
	GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go vet ./...
	GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go build ./...
	GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 go build $(PORTABLE)
	GOOS=windows GOARCH=amd64 CGO_ENABLED=0 go build $(PORTABLE)
	$(STATICCHECK) ./...
	@$(MAKE) --no-print-directory clean-tree

# In CI nothing that was built, generated or tested may change the tree.
.PHONY: clean-tree
clean-tree:
	@if [ -n "$${CI:-}" ] && changed=$$(git status --porcelain 2>/dev/null) && [ -n "$$changed" ]; then \
		echo "the tree has changed:"; echo "$$changed"; exit 1; fi

.PHONY: bench
bench: build ## measure this host, side by side with bubblewrap and runc
	@scripts/setup --bench
	scripts/bench

# The tests that do more where CALLCELL_LONG is set, and where they are; a test
# of internal/tree holds both lists to the tests.
LONG_TESTS := TestKilledAtRandom TestDaemonKilledAtRandom TestOnceOverKills TestKilledUnderLoad TestVerifyManyEvents \
	TestFirstInstructionAsksForAName TestManyCalls TestKillsAmongSeveralLaunchers TestSparesUnderCancellation \
	TestFirstInstructionIsAQuery TestManyNamesAreBounded TestKilledMakings TestSnapshot
LONG_PACKAGES := ./. ./internal/cli ./internal/store ./internal/launcher ./internal/runtime/container ./internal/e2e

empty :=
long_pattern := ^($(subst $(empty) ,|,$(strip $(LONG_TESTS))))$$

.PHONY: test-long
test-long: setup-test ## test-proofs, test-thrice and fuzz (20s each), whatever becomes of one: 75 to 90 minutes
	@FUZZTIME=$${FUZZTIME:-20s} scripts/parts test-proofs test-thrice fuzz

.PHONY: test-proofs
test-proofs: ## the tests that do more with CALLCELL_LONG: 1,000 calls with 200 kills, 20,000 cells, a chain of 500,000 calls; and those of the network at userkernel
	CALLCELL_LONG=1 go test -p 1 -count=1 -v -timeout 60m -run '$(long_pattern)' $(LONG_PACKAGES)
	CALLCELL_TEST_LEVEL=userkernel go test -count=1 -timeout 60m -run '$(AT_USERKERNEL)' ./internal/e2e

# Without the tests of test-proofs: they do one thing hundreds of times as it is.
.PHONY: test-thrice
test-thrice: ## every test three times over in any order, one package after the other, but for those of test-proofs
	@count=$$(go list ./... | wc -l); \
	go test -p 1 -count=3 -shuffle=on -timeout 60m -skip '$(long_pattern)' ./... | \
		awk -v count="$$count" '/^(ok  |FAIL|\?   )\t/ { printf "[%d of %d] ", ++k, count } { print; fflush() }'

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME (10s)
	scripts/fuzz $(FUZZTIME)

.PHONY: clean
clean: ## remove what was built
	rm -rf bin out
