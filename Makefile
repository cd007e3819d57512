# The one door for building, checking and running. `make help` lists what there is.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

export PATH := $(CURDIR)/.deps/tools/bin:$(PATH)

WASM := target/filter.wasm
WASM_BUDGET_BYTES := 1300000

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- get and build ---

.PHONY: setup build wasm wasm-size
setup: ## Fetch Envoy, tokenizers and test tools into .deps (once)
	@scripts/setup.sh

build: setup ## Build the native programs
	cargo build --workspace --bins

wasm: setup ## Build the filter that Envoy loads, and hold it to its size budget
	cargo build --package filter --lib --target wasm32-wasip1 --profile wasm
	@scripts/optimize-wasm.sh target/wasm32-wasip1/wasm/filter.wasm $(WASM)
	@size=$$(stat -c %s $(WASM)); echo "$(WASM): $$size bytes of at most $(WASM_BUDGET_BYTES)"; \
	[ "$$size" -le $(WASM_BUDGET_BYTES) ]

wasm-size: wasm ## Print the size of the filter by section, crate and module
	@scripts/optimize-wasm.sh target/wasm32-wasip1/wasm/filter.wasm target/filter-named.wasm names
	@node scripts/wasm-size.mjs target/filter-named.wasm

# --- static checks ---

.PHONY: fmt fmt-check clippy clippy-wasm docs check-arrows deny lint
fmt: ## Format all code
	cargo fmt --all

fmt-check:
	cargo fmt --all -- --check

clippy: setup
	cargo clippy --workspace --all-targets -- -D warnings

clippy-wasm: setup
	cargo clippy --package kv-routing --package filter --target wasm32-wasip1 -- -D warnings
	cargo clippy --package kv-routing --target wasm32-unknown-unknown --all-targets -- -D warnings

docs: setup ## Build the API documentation, warnings denied
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items

check-arrows: ## Check who may depend on whom, and who may name proxy_wasm
	@scripts/check-arrows.sh

deny: setup ## Check licences, sources, bans and advisories of all dependencies
	@scripts/deny.sh

lint: fmt-check clippy clippy-wasm docs check-arrows deny ## All static checks

# --- tests ---

.PHONY: test-unit test-wasm envoy-validate test-e2e test-swaps test-shadow test-aborts test
test-unit: setup ## Native tests of every crate except the end-to-end tests
	cargo test --workspace --exclude e2e

test-wasm: setup ## The pure core's tests in 32-bit WebAssembly under Node
	CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUNNER=wasm-bindgen-test-runner \
	cargo test --package kv-routing --target wasm32-unknown-unknown --test 'wasm*'

.PHONY: test-tokens-full
STRINGS := 1000000
TOKENIZERS = $(dir $(wildcard .deps/tokenizers/*/tokenizer.json) .deps/tokenizers/tekken/)
test-tokens-full: setup ## Core against the Hugging Face library: STRINGS generated texts and every scalar value, each model (hours)
	cargo run --package event-bridge --example tokenizer_parity -- $(STRINGS) 64 $(TOKENIZERS)

envoy-validate: wasm ## Let Envoy validate every checked-in configuration with the fresh filter
	@scripts/envoy-validate.sh $(WASM)

test-e2e: wasm build ## Real Envoy, real bridge, simulated engines
	cargo test --package e2e

test-swaps: wasm build ## 50 policy swaps in 50 s, 10 of them refused, under 200 requests/s (test-e2e has a shorter run)
	E2E_SWAPS=50 E2E_SWAP_PERIOD_MS=1000 cargo test --package e2e -- policy_swaps --nocapture

test-shadow: wasm build ## Hit rate predicted by a round robin shadow against round robin at work, 4000 requests each (5 minutes)
	E2E_SHADOW_REQUESTS=4000 cargo test --package e2e -- a_shadow_predicts --nocapture

test-aborts: wasm build ## A thousand clients that leave in each phase of a hand-over, per protocol (15 minutes; test-e2e has a few)
	ABORTS=1000 cargo test --package e2e --test e2e -- disagg::aborts --nocapture

test: lint test-unit test-wasm envoy-validate test-e2e ## Everything that is checked

# --- longer checks, not part of `make test` ---

.PHONY: test-vllm-handoff
test-vllm-handoff: setup ## Prefill and decode bodies against vLLM's own request models (needs the vLLM of scripts/record-vllm-renderings.py)
	.deps/vllm/bin/python scripts/check-vllm-handoff.py

.PHONY: test-dynamo
test-dynamo: setup ## The bridge's index against that of Dynamo's indexer, on events of Dynamo's mocker (fetches 600 MB once)
	cargo build --package event-bridge
	@scripts/test-dynamo.sh

.PHONY: test-vllm
test-vllm: setup ## The filter's tokens against those of a real vLLM, 500 requests of all kinds (fetches 6 GB once)
	cargo build --package event-bridge
	@scripts/test-vllm.sh

.PHONY: test-gaps
GAP_RUNS := 10000
PROXY_RUNS := 1000
test-gaps: ## Lost, repeated, reordered and cut batches, restarts: GAP_RUNS seeds of the simulation, PROXY_RUNS over real sockets (minutes)
	GAP_RUNS=$(GAP_RUNS) cargo test --package event-bridge --test gap_simulation -- --nocapture
	PROXY_RUNS=$(PROXY_RUNS) cargo test --package event-bridge --test streams -- faults --nocapture

.PHONY: fuzz
fuzz: setup ## Fuzz every decoder (FUZZ_SECONDS=300 each, FUZZ_TARGETS="batch page" for some of them)
	@scripts/fuzz.sh

# --- run and measure ---

.PHONY: run run-disagg bench bench-ingest bench-path bench-tokens bench-replay
run: wasm build ## Envoy, bridge and two simulated engines (or WORKERS="ip:port ...") until Ctrl-C
	@target/debug/run-local

PROTOCOL ?= nixl
run-disagg: wasm build ## The same with two prefill and two decode engines; PROTOCOL=nixl, mooncake, sglang or trtllm
	@PROTOCOL=$(PROTOCOL) target/debug/run-local

bench: setup ## Benchmarks of the pure core
	cargo bench --package kv-routing

bench-ingest: setup ## Events to index and pages: cost per event, and a pool of 200 engines at 300,000 block events/s for a minute
	cargo bench --package event-bridge --bench ingest
	cargo bench --package event-bridge --bench ingest_load

bench-path: wasm ## What the filter adds to a request: Envoy with it, without it, and no Envoy
	cargo build --release --package bench --package event-bridge --bins
	target/release/path

bench-tokens: wasm ## Tokenizing inside Envoy, beside the Hugging Face library in the same place
	cargo build --package bench-tokens --target wasm32-wasip1 --profile wasm
	@scripts/optimize-wasm.sh target/wasm32-wasip1/wasm/bench_tokens.wasm target/bench-tokens.wasm
	cargo run --release --package bench --bin tokens -- target/bench-tokens.wasm

bench-replay: wasm build ## Mooncake trace: hit rate and time to first token by balancing method
	cargo run --package bench --bin replay
	cargo run --package bench --bin replay -- --split

.PHONY: clean
clean: ## Remove build results and run state; keeps .deps
	cargo clean
	rm -rf .run
