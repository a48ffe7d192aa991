# What there is to do here. `make demo` and `make test` work offline once the crates are fetched; `make test-real`
# does not.

PREFIX ?= /usr/local
BINARY = target/release/coding-agent

.PHONY: build check test test-real units demo bench install clean help

help: ## Show this list.
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST)

build: ## Build the program: target/release/coding-agent.
	cargo build --release --locked

test: ## All tests, crash points and failing disks among them.
	cargo test --locked --features faults

test-real: ## Against what others wrote: MCP servers, API descriptions. Needs node, python3 and their registries.
	tests/real/run

check: ## What CI runs: format, lints, tests, units, demo.
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings
	cargo clippy --locked --all-targets --features faults -- -D warnings
	$(MAKE) test
	$(MAKE) units
	$(MAKE) demo

units: build ## Check the systemd units, where systemd-analyze is installed.
	@if command -v systemd-analyze >/dev/null; then \
	  rm -rf target/units && mkdir -p target/units && cp systemd/* target/units/ && \
	  sed -i 's|^ExecStart=.*|ExecStart=$(CURDIR)/$(BINARY)|' target/units/coding-agent.service && \
	  systemd-analyze verify --man=no target/units/coding-agent.service target/units/coding-agent.timer && \
	  echo "systemd units: good"; \
	else echo "systemd units: not checked, systemd-analyze is missing"; fi

demo: build ## Show the whole job on a small repository, offline.
	$(BINARY) demo target/demo

bench: build ## Measure; prints figures, asserts nothing.
	cargo bench --locked --bench bench

install: build ## Install into $(PREFIX)/bin (PREFIX=/usr/local).
	install -D -m 755 $(BINARY) $(DESTDIR)$(PREFIX)/bin/coding-agent

clean: ## Remove what was built.
	cargo clean
