# `make` lists the targets. Longer shell code is in scripts/.

SHELL := bash

VERSION   := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LISTEN    ?= ws://127.0.0.1:0
FUZZTIME  ?= 10s
MODELTIME ?= 5m
TIMEOUT   ?= 30m
SOAKLIMIT ?= 90m

# Without paths of this machine in the programs, all clones share Go's build cache.
export GOFLAGS := $(GOFLAGS) -trimpath

# Packages that start no goroutine and share nothing between goroutines. They are tested without the race detector, with which
# their programs take longer to link and to run. TestPlainPackages in docs checks the list.
PLAIN := docs examples schema $(addprefix internal/,codexhome confine/explain fleet mountinfo netpolicy oserr \
	sandbox/seatbelt sandbox/seccomp shellword slots toml)

GO_FILES = $(shell find . -name '*.go' -not -path './.*')

.DEFAULT_GOAL := help
.PHONY: help build run test check test-unit test-plain test-cli test-conformance test-interop test-console test-clients test-release release release-check screenshots interop record soak model bench fuzz demo through-cuts fleet-demo clean bubblewrap websockets sshd schema

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/tether, and bin/tether-mcp and bin/tether-fleet, which have some of its commands
	@scripts/build $(VERSION)

run: build ## build, serve on loopback; LISTEN=ws://IP:PORT
	@exec bin/tether serve --listen $(LISTEN)

test: bubblewrap ## everything CI runs: check and the eight targets below, three at a time
	@scripts/in-memory $(MAKE) --no-print-directory -j 3 check test-unit test-plain test-cli test-conformance test-interop test-console test-clients test-release

check: ## format, vet for each platform, lint, compare the schema with the code
	@files="$$(gofmt -l $(GO_FILES))"; test -z "$$files" || { echo "gofmt -w these:"; echo "$$files"; exit 1; }
	@go run ./schema/generate -check
	@for os in linux darwin windows; do echo "vet $$os"; GOOS=$$os go vet ./... || exit 1; done
	@for tag in mcp fleet; do for os in linux darwin windows; do echo "vet $$os with $$tag"; GOOS=$$os go vet -tags $$tag ./cmd/tether || exit 1; done; done
	@echo vet tests with fleet; go vet -tags fleet ./client/... ./unifiedexec
	@for os in linux darwin windows; do echo "build $$os with split"; GOOS=$$os go build -tags split -o /dev/null ./cmd/tether || exit 1; done
	@echo "vet with interop"; go vet -tags interop ./...
	@echo staticcheck; go tool -modfile=tools/go.mod staticcheck -tags interop ./...
	@for tag in mcp fleet; do echo "staticcheck with $$tag"; go tool -modfile=tools/go.mod staticcheck -tags $$tag ./cmd/tether || exit 1; done

# The race detector makes each program wait a second before it exits, in case of late reports.
test-unit soak: export GORACE=atexit_sleep_ms=0
test-unit: sshd ## tests beside the code, with the race detector
	go test -race -vet=off -parallel 4 -timeout $(TIMEOUT) $$(go list ./... | grep -vxF $(patsubst %,-e github.com/tetherexec/tether/%,conformance clients/conformance cmd/tether $(PLAIN)))

test-plain: ## packages without goroutines
	go test -vet=off -timeout $(TIMEOUT) $(addprefix ./,$(PLAIN))

# The programs that these two targets start are built without the race detector, with which each start takes 0.1 s. make soak
# runs both with it.
test-cli: sshd ## the program: each command, keepers, upgrades
	go test -vet=off -parallel 4 -timeout $(TIMEOUT) ./cmd/tether

# It removes and makes the protected names in /tmp, which servers of other tests guard: therefore it has a /tmp of its own.
test-conformance: ## sandboxes and attacks on them, as root and as a user
	scripts/in-memory go test -vet=off -parallel 4 -timeout $(TIMEOUT) ./conformance

test-interop: build ## compare bin/tether with the recorded reference, and run the real client through it
	@scripts/with-reference --optional go test -tags interop -vet=off -count 1 -parallel 4 -timeout $(TIMEOUT) ./interop

test-console: ## the page of the console, under node and in a browser
	@scripts/build-console test
	@scripts/build-console
	@scripts/need-chromium
	go -C internal/console/browser vet .
	go -C internal/console/browser test -vet=off -timeout $(TIMEOUT) .

screenshots: ## take the pictures of the console's page again, for docs/console
	@scripts/build-console
	@scripts/need-chromium
	go -C internal/console/browser test -vet=off -count 1 -run TestPictures . -shots $(CURDIR)/docs/console

test-clients: websockets ## the clients in Go, Python and TypeScript, with one script
	@scripts/build-typescript
	go test -vet=off -timeout $(TIMEOUT) ./clients/conformance

test-release: ## the files of a release, made of a tiny program; install.sh; the drawing of the README's picture
	go -C tools vet ./release ./picture
	go -C tools test -vet=off -timeout $(TIMEOUT) ./release ./picture

release: ## all files of a release for six platforms, in dist; sends nothing anywhere
	@scripts/release dist

release-check: ## build the release twice and compare, install it in a clean Debian, run its image; root, takes about 15 minutes
	@scripts/release-check

interop: build ## compare bin/tether and the recording with the live reference
	@scripts/with-reference go test -tags interop -count 1 -timeout $(TIMEOUT) ./interop -live

record: ## record the answers of the reference in interop/testdata
	@scripts/with-reference scripts/record-reference $(TIMEOUT)

soak: export TETHER_SOAK=1
soak: bubblewrap sshd build ## all tests, with tests of load and time at full length; before a release
	go test -race -count 1 -timeout $(SOAKLIMIT) $$(go list ./... | grep -vx github.com/tetherexec/tether/conformance)
	scripts/in-memory go test -race -count 1 -timeout $(SOAKLIMIT) ./conformance
	@echo through gateways
	go test -race -count 1 -tags fleet -timeout $(SOAKLIMIT) ./client ./client/files ./client/web ./unifiedexec
	@scripts/with-reference go test -tags interop -count 1 -timeout $(SOAKLIMIT) ./interop -live
	@scripts/with-reference go test -tags interop -count 1 -timeout $(SOAKLIMIT) ./interop -gateways 1
	@echo the page of the console, with its goals of speed
	@scripts/need-chromium
	go -C internal/console/browser test -vet=off -count 1 -timeout $(SOAKLIMIT) .

schema: ## write schema/ from package wire, after a change of the protocol
	@go run ./schema/generate

model: build ## random operations and faults against both servers, for MODELTIME=5m each
	@scripts/with-reference go test -tags interop -count 1 -timeout 60m -v -run TestClientModel ./interop -model $(MODELTIME)

bench: build ## benchmarks of the hot paths, then end to end beside the reference
	go test -run '^$$' -bench . -benchmem -benchtime 0.3s ./wire ./internal/...
	@scripts/with-reference true
	@go run ./bench

fuzz: ## run each fuzz target for FUZZTIME=10s
	@scripts/fuzz $(FUZZTIME)

demo: build ## record the moving picture of the README again, docs/demo.svg
	@scripts/demo

through-cuts: ## copy gigabytes, run a build and an editor through cut connections; takes minutes
	@for script in scripts/pipe-through-cuts scripts/build-through-cuts scripts/cp-through-cuts scripts/editor-through-a-cut; do $$script || exit 1; done

fleet-demo: build ## a hub, three executors and two gateways on loopback, until Ctrl-C
	@scripts/fleet-demo

clean: ## remove the built programs; the reference in .reference/ stays
	rm -rf bin
	go clean -testcache -fuzzcache

# One of the two backends of the sandbox on Linux; tests compare them.
bubblewrap:
	@scripts/need-bubblewrap

# For the tests of ssh://.
sshd:
	@scripts/need-sshd

# For the tests of the Python client.
websockets:
	@scripts/need-websockets
