# Wallproof. The two commands: `make demo` builds everything and runs the main
# job; `make test` passes the tests. Both need Linux, Go, git and root.

export CGO_ENABLED := 0
export GOFLAGS := -trimpath -buildvcs=false

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
COMMIT  := $(shell git rev-parse HEAD 2>/dev/null)
LDFLAGS := -s -w -X github.com/wallproof/wallproof/internal/version.Version=$(VERSION) -X github.com/wallproof/wallproof/internal/version.Commit=$(COMMIT)
BIN     := bin
OUT     ?= wallproof-demo
# The auditor's program is built without the network code of the modules below it.
SLIM      := go run ./internal/tools/slim
SLIMFLAGS := -tags urfave_cli_no_docs
# It, and the program that users start, which carries no more and hands over the rest.
QUICK     = $(SLIM) go build $(SLIMFLAGS) -ldflags "$(LDFLAGS)" -o $(BIN)/ ./cmd/wallproof-verify ./cmd/wallproof-front && mv -f $(BIN)/wallproof-front $(BIN)/wallproof
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: build core demo test unit e2e generate check fmt-check vet staticcheck cross wasm bench breaks breaks-sample clean-runs clean need-root test-runc test-hostile test-adapters test-breaks test-conformance test-site bench-proxy bench-verify stack test-stack test-pkcs11

# The other key services that cmd/wallproof-kms has clients of, each by its scheme.
OTHERKMS := awskms azurekms hashivault openbao

build: core $(BIN)/sigstore-kms-gcpkms ## all binaries into bin/
	go build -ldflags "-s -w" -o $(BIN)/sigstore-kms-pkcs11 ./cmd/wallproof-pkcs11

core: $(BIN)/wallproof-runsc ## the binaries that a run and its evidence need
	go build -ldflags "$(LDFLAGS)" -o $(BIN)/wallproof-boundary ./cmd/wallproof
	go build -ldflags "$(LDFLAGS)" -o $(BIN)/ ./cmd/wallproof-probe ./cmd/wallproof-agent
	go build -tags breaks -ldflags "$(LDFLAGS)" -o $(BIN)/ ./cmd/wallproof-breaks
	$(QUICK)
	site/wasm/build $(BIN)

# gVisor takes minutes to build when the cache is cold and changes rarely.
$(BIN)/wallproof-runsc: $(wildcard cmd/wallproof-runsc/*)
	cd cmd/wallproof-runsc && go build -ldflags "-s -w" -o ../../$(BIN)/wallproof-runsc .

# The helper that holds the clients of key services; the verifier has none of them.
$(BIN)/sigstore-kms-gcpkms: $(wildcard cmd/wallproof-kms/*.go) cmd/wallproof-kms/go.mod
	cd cmd/wallproof-kms && go build -ldflags "-s -w" -o ../../$(BIN)/sigstore-kms-gcpkms .
	for s in $(OTHERKMS); do ln -f $(BIN)/sigstore-kms-gcpkms $(BIN)/sigstore-kms-$$s || exit 1; done

demo: core ## run the main job end to end into $(OUT)
	$(BIN)/wallproof demo --out $(OUT)

test: need-root core unit e2e ## everything that must pass

unit:
	go test ./...

# The ten hostile programs wait for their bounds, and a halt has to last, so they have a target of their own.
HOSTILE := ^(Test9HostileProgram|Test3HaltedRun|Test3EditedRun)$$

e2e:
	go test -tags e2e -count 1 -timeout 30m -skip '$(HOSTILE)' ./testdata/e2e

need-root:
	@test "$$(id -u)" = 0 || { echo "make test needs root: it builds network namespaces and real sandboxes (try: sudo make test)" >&2; exit 1; }

check: fmt-check vet staticcheck cross wasm ## what CI checks besides the tests

fmt-check:
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "gofmt would change:"; echo "$$out"; exit 1; }

vet:
	go vet ./...
	go vet -tags breaks ./...
	go vet -tags "e2e adapters breaks" ./testdata/e2e
	cd cmd/wallproof-runsc && go vet .
	go vet -tags stack ./attest/stacktest ./policy/proxy/secret
	go vet -tags pkcs11 ./cmd/wallproof-pkcs11
	cd cmd/wallproof-kms && go vet -tags stack .
	cd policy/proxy/bench && go vet .

staticcheck:
	go run $(STATICCHECK) ./...
	go run $(STATICCHECK) -tags breaks ./battery/... ./policy/... ./cmd/...

# What an auditor runs must build for their laptop.
cross:
	GOOS=darwin GOARCH=arm64 go build -o /dev/null ./cmd/wallproof
	GOOS=windows GOARCH=amd64 go build -o /dev/null ./cmd/wallproof
	$(SLIM) darwin/arm64 go build $(SLIMFLAGS) -o /dev/null ./cmd/wallproof-verify
	$(SLIM) windows/amd64 go build $(SLIMFLAGS) -o /dev/null ./cmd/wallproof-verify
	GOOS=darwin GOARCH=arm64 go vet ./verify/... ./internal/auditor ./cmd/wallproof ./cmd/wallproof-verify ./cmd/wallproof-front
	GOOS=windows GOARCH=amd64 go vet ./verify/... ./internal/auditor ./cmd/wallproof ./cmd/wallproof-verify

clean:
	rm -rf $(BIN) $(OUT)

wasm: ## the verifier for the browser builds
	$(SLIM) js/wasm go build ./verify/...
	$(SLIM) js/wasm go vet ./site/wasm

bench: need-root build ## benchmarks: judging, manifest hashing, the battery beside twenty bare starts
	go test -run '^$$' -bench . ./battery/judge ./attest/manifest
	go test -tags e2e -run '^$$' -bench . -benchtime 1x ./testdata/e2e

breaks: need-root build ## every seeded break must be noticed
	$(BIN)/wallproof-breaks run testdata/breaks/*.yaml

# Breaks of all kinds, with parameters that no file has, drawn from a seed.
SEED ?= 1
breaks-sample: need-root build ## N seeded breaks drawn from SEED must be noticed
	rm -rf $(BIN)/sample
	$(BIN)/wallproof-breaks sample --seed $(SEED) --count $(N) $(BIN)/sample >/dev/null
	$(BIN)/wallproof-breaks run $(BIN)/sample/*.yaml

N ?= 100
DRIVER ?= gvisor
clean-runs: need-root build ## attack the intact boundary N times: no escape, nothing inconclusive, nothing run again
	go test -tags e2e -count 1 -timeout 0 -v -run '^Test8CleanRuns$$' ./testdata/e2e -args -clean-runs $(N) -clean-driver $(DRIVER)

# The runc drivers need Debian's runc, which is not on every machine.
test-runc: need-root build ## the drivers on runc
	go test -tags runc -count 1 ./battery/sandbox/runc

# Pages in a real browser, those of a real run among them, and a site of 10,000 attestations
# beside Hugo. Needs chromium, nodejs and npm; hugo where it is to be compared with.
test-site: need-root demo ## the pages in a real browser
	npm ci --no-audit --no-fund --prefix site/test/browser
	WALLPROOF_WASM=$(abspath $(BIN)) WALLPROOF_DEMO=$(abspath $(OUT)) site/test/run

test-hostile: need-root build ## images whose programs forge, flood, fill, fork, and do not end; halted and edited runs
	go test -tags e2e -count 1 -timeout 20m -v -run '$(HOSTILE)' ./testdata/e2e

# Debian's squid and mitmproxy are not on every machine.
test-adapters: need-root build ## the battery against somebody else's proxy
	go test -tags "e2e adapters" -count 1 -timeout 20m -v -run '^Test9Foreign' ./testdata/e2e

# The hooks themselves, which exist under the tag alone.
test-breaks: need-root core
	go test -tags breaks -count 1 -run 'Break|Broken|Hook' ./battery/boundary ./policy/proxy
	go test -tags breaks -count 1 ./battery/breaks
	go test -tags "e2e breaks" -count 1 -timeout 15m -run '^Test9(Model|Hostile)UnderABreak$$' ./testdata/e2e

test-load: ## a thousand connections, a hundred thousand requests through the proxy, no leak
	go test -tags load -count 1 -timeout 15m -run Load ./policy/proxy

# DIR is a folder of cases of the public sigstore-conformance suite. Each is asked
# of the command line, with the artefact's path and with its digest.
test-conformance:
	@test -n "$(DIR)" || { echo "name the folder of cases: make test-conformance DIR=…" >&2; exit 1; }
	go build -ldflags "$(LDFLAGS)" -o $(BIN)/wallproof-boundary ./cmd/wallproof
	$(QUICK)
	go run ./internal/tools/conformance -command $(BIN)/wallproof $(DIR)
	go run ./internal/tools/conformance -command $(BIN)/wallproof-boundary $(DIR)
	go run ./internal/tools/conformance -command $(BIN)/wallproof-verify $(DIR)

# ALL=1 builds the cosign command and OpenBao too, long builds.
stack: ## real servers for the tests of signing, built once into a cache
	go run ./internal/tools/stack $(if $(ALL),-all)

test-stack: need-root stack build ## signing against real servers and key services; needs ip
	go test -tags stack -count 1 -timeout 10m -v -run TestStack ./attest/stacktest ./policy/proxy/secret
	cd cmd/wallproof-kms && go test -tags stack -count 1 -timeout 10m .

test-pkcs11: ## signing with keys in a PKCS #11 token; needs Debian's softhsm2
	go test -tags pkcs11 -count 1 -run TestSoftHSM ./cmd/wallproof-pkcs11

bench-verify: ## verification beside SHA-256, a bare start and cosign (make stack ALL=1)
	go test -tags bench -count 1 -run TestTable -v ./internal/tools/benchverify

bench-proxy: ## the proxy beside what a user would pick instead
	cd policy/proxy/bench && go run .
