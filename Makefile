# The verbs of this repository. `make test` and `make test-cluster` are the test commands of the README;
# .ci/run runs both at once.

CACHE  ?= $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/portcullis
PYTHON  = $(CACHE)/python
NODE    = $(CACHE)/node
export PORTCULLIS_PYTHON = $(PYTHON)/bin/python
export PORTCULLIS_NODE_MODULES = $(NODE)/node_modules

# Tests that need what this machine does not have (Go, for the control plane) count themselves here.
export PORTCULLIS_SKIPPED = $(CACHE)/skipped-tests

.PHONY: test test-cluster test-all quick build-tests lint gen fmt fuzz bench clients python cluster

# Builds every program of tests; it installs what these need into $(CACHE) first.
build-tests: clients
	@rm -f "$(PORTCULLIS_SKIPPED)"
	@echo "==> building the tests"
	cargo test --workspace --no-run
	@echo "==> running the tests"

LANES = "$${CARGO_TARGET_DIR:-target}/debug/test-lanes"

# Left out: tests that serve on sockets to clients of other languages and push against bounds, and those of
# watches that wait for up to half a minute (docs/testing.md).
BEYOND_QUICK = --skip serve:: --skip source::tests::faults --skip source::tests::batcher --skip source::tests::reconnect \
  --skip source::epoch_tracker

## quick: unit and property tests of every crate, in about a minute where nothing is to be compiled
quick:
	RUST_TEST_THREADS=12 cargo test --workspace --lib --no-fail-fast --quiet -- $(BEYOND_QUICK)

## test: the tests that need neither a cluster nor root
test: build-tests
	@$(LANES) --rest-only

## test-cluster: the other tests: on real API servers, in real pods, and with rules in network namespaces
test-cluster: build-tests
	@$(LANES) --cluster-only

## test-all: both at once, as .ci/run does; ORDER=--one-after-the-other
test-all: build-tests
	@$(LANES) $(ORDER)

## cluster: build Kubernetes, helm and CoreDNS for the tests, once (minutes; kept in $(CACHE)/cluster), and our images
cluster:
	@echo "==> building the tests"
	cargo test --workspace --no-run
	@echo "==> the control plane and the node for the tests"
	@"$${CARGO_TARGET_DIR:-target}/debug/test-cluster" build
	@echo "==> the images for the tests in real pods"
	@"$${CARGO_TARGET_DIR:-target}/debug/test-cluster" images

## lint: formatting, dependencies and every lint, as errors; of the fuzz targets, too
lint: deps
	cargo fmt --all -- --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo fmt --all --manifest-path tests/fuzz/Cargo.toml -- --check
	cargo clippy --locked --all-targets --manifest-path tests/fuzz/Cargo.toml -- -D warnings

## gen: rewrite the checked-in generated files (protobuf code, CRD YAML)
gen:
	cargo run -p xtask -- gen

## fmt: format the code
fmt:
	cargo fmt --all
	cargo fmt --all --manifest-path tests/fuzz/Cargo.toml

## fuzz: run the fuzz targets for FUZZ_SECONDS (60) each; TARGETS="sidecar stream" runs some
fuzz:
	tests/fuzz/run $(TARGETS)

## bench: what functions cost, in instructions, allocations and nanoseconds; AGAINST=HEAD^ prints the change
bench:
	bench/functions $(if $(AGAINST),--against $(AGAINST))

# The documented API has example clients, which tests run against the controller. The one in Go is built by
# its test.
clients: python $(NODE)/.installed

$(NODE)/.installed: docs/examples/node/package.json docs/examples/node/package-lock.json
	@echo "==> installing the Node.js gRPC packages for the example client into $(NODE)"
	@command -v npm >/dev/null || { echo "npm is needed for the example client's test" >&2; exit 1; }
	mkdir -p $(NODE)
	cp docs/examples/node/package.json docs/examples/node/package-lock.json $(NODE)/
	npm ci --prefix $(NODE) --no-audit --no-fund --silent
	touch $@

python: $(PYTHON)/.installed

$(PYTHON)/.installed: docs/examples/python/requirements.txt
	@echo "==> installing the Python gRPC packages for the example client into $(PYTHON)"
	@command -v python3 >/dev/null || { echo "python3 is needed for the example client's test" >&2; exit 1; }
	python3 -m venv $(PYTHON) || { echo "python3 -m venv failed: on Debian, apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON)/bin/pip install --quiet --disable-pip-version-check -r docs/examples/python/requirements.txt
	@touch $@

# Tools that look at the dependencies, kept by version. They run for seconds: optimising them takes minutes.
MACHETE = $(CACHE)/tools/cargo-machete-0.9.2/bin/cargo-machete
DENY    = $(CACHE)/tools/cargo-deny-0.20.2/bin/cargo-deny

.PHONY: deps

## deps: dependencies that nothing uses, and licences, sources and second versions that deny.toml does not allow
deps: $(MACHETE) $(DENY)
	$(MACHETE)
	$(DENY) check licenses sources bans

.PHONY: advisories

## advisories: dependencies with public advisories, where the database of advisories can be had
advisories: $(DENY)
	@if $(DENY) fetch db; then $(DENY) check --disable-fetch advisories; \
	else echo "the database of advisories cannot be had: nothing was checked" >&2; fi

$(CACHE)/tools/%:
	@echo "==> installing $(notdir $@) into $(CACHE)/tools"
	env -u CARGO_TARGET_DIR cargo install --debug --quiet --locked \
	  --root "$(CACHE)/tools/$(firstword $(subst /, ,$*))" \
	  "$(notdir $@)@$(lastword $(subst -, ,$(firstword $(subst /, ,$*))))"
