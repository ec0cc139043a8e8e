# make        builds bin/caisson and its guest: needs Go and make, nothing else.
# make probe-wasm  builds bin/caisson-probe.wasm, the benchmark's program for WASI.
# make demo   builds, then runs a command in a box and shows what it cannot see.
# make check  what to run before every commit: vet, lint, layers, short tests, cross-compiles.
# make test   all tests as who you are.
# make ci     what CI runs: installs what tests need (as root), then all tests, as root and as an ordinary user.
# make night  the slow half: race detector, fuzzing, start-up benchmark, test-vm.
# make test-vm  what needs cgroup v2, systemd or Linux 6.1, in a VM that it builds (docs/test-vm.md).

MODULE    := github.com/caisson-dev/caisson
GOOS      := $(shell go env GOOS)
GO_BUILD  := CGO_ENABLED=0 go build -trimpath
# The commit is recorded where git will tell it (not in a tree that another user owns).
VCS       := -buildvcs=$(shell git rev-parse -q --verify HEAD >/dev/null 2>&1 && echo true || echo false)
STRIP     := -s -w
GUEST_MAX := 4194304
FUZZTIME  ?= 60s
PACKAGES  := ./... ./.ci/summary

# Versions of the tools; they are run, not installed, and are no part of go.mod.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOFUMPT     := mvdan.cc/gofumpt@v0.12.0

# Tests that need the built binaries find them here.
export CAISSON_BIN := $(CURDIR)/bin

.PHONY: all build guest probe-wasm demo check lint short cross test ci night race slow fuzz bench test-vm clean

all: build

# The guest is built first: caisson refuses a guest with another digest than
# the one it was linked with. Off Linux there is no box, only the client.
ifeq ($(GOOS),linux)
build: guest
	@set -e; digest=$$(sha256sum bin/caisson-guest | cut -d' ' -f1); set -x; \
	$(GO_BUILD) $(VCS) -ldflags "$(STRIP) -X $(MODULE)/internal/driver/place.guestDigest=$$digest" -o bin/caisson ./cmd/caisson; \
	{ set +x; } 2>/dev/null; grep -q "$$digest" bin/caisson || { echo "bin/caisson does not hold the digest of its guest" >&2; exit 1; }
	@if [ -d escape/probe ]; then set -x; $(GO_BUILD) -buildvcs=false -ldflags "$(STRIP)" -o bin/caisson-probe ./escape/probe; fi
else
build:
	$(GO_BUILD) $(VCS) -ldflags "$(STRIP)" -o bin/caisson ./cmd/caisson
endif

guest:
	@mkdir -p bin
	$(GO_BUILD) -buildvcs=false -ldflags "$(STRIP)" -o bin/caisson-guest ./cmd/caisson-guest
	@size=$$(wc -c < bin/caisson-guest); if [ "$$size" -ge $(GUEST_MAX) ]; then \
		echo "bin/caisson-guest has $$size bytes: it must stay under $(GUEST_MAX)" >&2; rm -f bin/caisson-guest; exit 1; fi

# The rows of the benchmark that a box for WASI has an object for.
probe-wasm:
	@mkdir -p bin
	GOOS=wasip1 GOARCH=wasm $(GO_BUILD) -buildvcs=false -ldflags "$(STRIP)" -o bin/caisson-probe.wasm ./escape/probe

demo: build
	bin/caisson run -- sh docs/demo.sh

check: lint build short cross

lint:
	go vet $(PACKAGES)
	go run $(STATICCHECK) $(PACKAGES)
	@unformatted=$$(go run $(GOFUMPT) -l .); if [ -n "$$unformatted" ]; then echo "not gofumpt-formatted:" $$unformatted >&2; exit 1; fi

short:
	go test -short $(PACKAGES)

# The client compiles everywhere; a box there is a clear error.
cross:
	GOOS=darwin GOARCH=arm64 $(GO_BUILD) -buildvcs=false -o /dev/null ./cmd/caisson
	GOOS=windows GOARCH=amd64 $(GO_BUILD) -buildvcs=false -o /dev/null ./cmd/caisson
	GOOS=linux GOARCH=arm64 $(GO_BUILD) -buildvcs=false -o /dev/null ./cmd/caisson
	GOOS=linux GOARCH=arm64 $(GO_BUILD) -buildvcs=false -o /dev/null ./cmd/caisson-guest
	GOOS=wasip1 GOARCH=wasm $(GO_BUILD) -buildvcs=false -o /dev/null ./escape/probe

test: build
	go test -count=1 $(PACKAGES)

ci:
	./.ci/run

night: build race slow fuzz bench test-vm

# What CAISSON_NIGHT adds: more rounds, larger boxes, the slowest programs.
slow: build
	CAISSON_NIGHT=1 go test -count=1 -timeout 60m $(PACKAGES)

race:
	CGO_ENABLED=1 go test -race -count=1 $(PACKAGES)

fuzz:
	@grep -rlE '^func Fuzz' --include='*_test.go' . | while read -r file; do \
		for name in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*).*/\1/p' "$$file"); do \
			echo "$$file $$name"; go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")" || exit 1; \
		done; done

# CAISSON_VM_DOC=docs/test-vm.md records the result there.
test-vm: build
	.ci/vm/run

bench: build
	bin/caisson bench start

clean:
	rm -rf bin .cache
