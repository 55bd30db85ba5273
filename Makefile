# Two commands do all the set-up: `make run` and `make test`.
SHELL := /bin/sh
TARGET := $(or $(CARGO_TARGET_DIR),target)
# The shell runs rustc when it needs the path, because before scripts/setup.sh there may be none.
BUILT := $(TARGET)/$$(rustc --print host-tuple)
BIN := $(BUILT)/release/layermark
# For arm64, made by `make dist` on another machine.
ARM64 := $(TARGET)/aarch64-unknown-linux-gnu/release/layermark
RUN_DIR ?= .
REPORT ?= report.html
PREFIX ?= $(HOME)/.local
# With BIN=FILE, that binary is used and nothing is built, so `sudo make install BIN=FILE` needs no Rust.
ifeq ($(origin BIN),file)
DO_BUILD = scripts/setup.sh build && $(MAKE) --no-print-directory build
else
DO_BUILD = :
endif
# Tests mostly wait, so there are more of them beside each other than CPUs. Only CI runs a failed test again.
SELF := the_control_shows_that_native_equals_itself
NEXTEST = NEXTEST_TEST_THREADS="$${NEXTEST_TEST_THREADS:-$$(($$(nproc) * 2))}" \
	PATH="$$(scripts/tool.sh cargo-nextest):$$PATH" cargo nextest run --workspace --locked $(if $(CI),--retries 1)
CARGO_DENY = PATH="$$(scripts/tool.sh cargo-deny):$$PATH" cargo deny

.PHONY: help run build install uninstall dist check test test-build test-rust test-quiet test-unprivileged test-browser \
	test-python test-dist test-arm64 soak lint lint-quick \
	bench bench-overhead vm-kernel docs clean

help: ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 20

# ARGS are additional arguments: make run ARGS='-l fuse --budget 90s'
run: ## Install what is missing, build, compare native with every layer this machine can set up; the page is ./report.html
	@scripts/setup.sh run
	@$(DO_BUILD)
	@"$(BIN)" run --dir "$(RUN_DIR)" -o "$(REPORT)" $(ARGS)

build: ## Build the release binary
	@[ -x "$(BIN)" ] || echo "building layermark from nothing: four to six minutes on two cores"
	@cargo build --release --locked -p layermark

install: ## Install program, shell completions and manual pages below PREFIX (~/.local)
	@$(DO_BUILD)
	@scripts/install.sh install "$(BIN)" "$(DESTDIR)$(PREFIX)"

uninstall: ## Remove what `make install` put below PREFIX; stored runs stay
	@scripts/install.sh uninstall "$(DESTDIR)$(PREFIX)"

dist: ## Packages for machines without Rust, for this architecture and arm64: tar.gz, .deb, wheel, SBOM in target/dist
	@scripts/setup.sh dist
	@$(DO_BUILD)
	@other="$$($(if $(filter file,$(origin BIN)),[ "$$(uname -m)" = aarch64 ] || scripts/arm64.sh build))" && \
		scripts/dist.sh "$(TARGET)/dist" "$(BIN)" $${other:+"$$other"}

check: ## Before a commit, in minutes: format, clippy, what needs no guest and no quiet machine, a test of each command
	@scripts/setup.sh check
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	$(NEXTEST) --profile check

test: ## All tests: Rust, as an unprivileged user, the report in a browser, the packages in a clean root
	@scripts/setup.sh test
	@scripts/test.sh test-build test-rust 'test-unprivileged test-browser test-python test-dist' test-quiet

# All that clippy looks at: .ci/run has both done at once.
test-build:
	cargo build --workspace --all-targets --locked --quiet

test-rust: export LAYERMARK_FUZZ_SECONDS ?= 10
test-rust: ## Unit, integration and end-to-end tests
	$(NEXTEST) -E 'not binary(quiet)'

test-quiet: ## Tests of verdicts about time: nothing may run beside them
	$(NEXTEST) --profile quiet

test-unprivileged: ## The end-to-end tests as a user without root
	scripts/test-unprivileged.sh

test-browser: ## The HTML report in Chromium, offline
	scripts/test-browser.sh

test-python: ## The Python reader, and the exports read by other programs' parsers
	scripts/test-python.sh "$(if $(filter file,$(origin BIN)),$(BUILT)/debug/layermark,$(BIN))"

# The packages contain the binary of the tests, so that nothing else is built; BIN=FILE packs another one.
test-dist: ## Every package, installed where there is no tool chain, measures two layers
	@scripts/test-dist.sh "$(if $(filter file,$(origin BIN)),$(BUILT)/debug/layermark,$(BIN))" $(wildcard $(ARM64))

test-arm64: ## Unit tests of what measures and reports, built for arm64, in QEMU's user emulation
	@scripts/setup.sh dist
	@scripts/arm64.sh test

# Before a release. About three hours on two cores.
soak: export LAYERMARK_KILLS ?= 300
soak: export LAYERMARK_HANGS ?= 200
soak: export LAYERMARK_SWAPS ?= 1000
soak: export LAYERMARK_PAGES ?= all
soak: export LAYERMARK_GUESTS ?= all
soak: export LAYERMARK_FUZZ_SECONDS ?= 3600
soak: ## What takes hours: 300 kills, 200 hangs, an hour of fuzzing, every documented command, 20 self-comparisons, power cuts, arm64
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory test-arm64
	$(NEXTEST) --profile soak
	$(NEXTEST) --profile soak --stress-count 20 --ignore-default-filter -E 'binary(quiet) & test(=$(SELF))'
	scripts/soak-durability.py "$(BUILT)/debug/layermark" --runs 20 --presets 200 --for 2h --dir "$(RUN_DIR)" --state "$(RUN_DIR)/soak-durability.jsonl"

lint: lint-quick ## Format, clippy, shellcheck, licences, bans, and advisories where their database can be had
	cargo clippy --workspace --all-targets --locked -- -D warnings

# What compiles nothing.
lint-quick:
	@scripts/setup.sh lint
	cargo fmt --all --check
	@scripts/test-summary.py --check
	@scripts/promises.py --check
	@scripts/circles.py --check
	@if command -v shellcheck >/dev/null; then shellcheck scripts/*.sh .ci/run; else \
		echo "lint: skipped: shell scripts: shellcheck is missing; hint: apt-get install shellcheck"; fi
	$(CARGO_DENY) check licenses bans sources
	@if $(CARGO_DENY) fetch db 2>/dev/null; then $(CARGO_DENY) check advisories; else \
		echo "lint: skipped: advisories and yanked crates: https://github.com/RustSec/advisory-db cannot be fetched here"; fi

bench: ## All benchmarks; results go to benches/results/
	@scripts/setup.sh bench
	@$(MAKE) --no-print-directory build
	cargo run --release --locked --quiet -p layermark-bench -- all "$(BIN)"

bench-overhead: ## Our own cost per operation against a C loop and fio; about a minute
	@scripts/setup.sh bench
	@$(MAKE) --no-print-directory build
	cargo run --release --locked --quiet -p layermark-bench -- overhead "$(BIN)"

vm-kernel: ## Fetch a full kernel for virtual machines, without installing it
	@scripts/fetch-kernel.sh

docs: ## Build the book into docs/book
	@command -v mdbook >/dev/null || { echo "docs: installing mdbook"; cargo install --locked --quiet mdbook; }
	@mkdir -p docs/src/made
	@scripts/promises.py --table >docs/src/made/promises.md
	mdbook build docs

clean: ## Remove what was built
	cargo clean
