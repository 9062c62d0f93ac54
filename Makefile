# Three commands do everything on a machine with Python and make: `make audit`, `make verify` and `make test`.

PYTHON ?= python3
VENV ?= .venv
RUN := $(VENV)/bin/python -m
JOBS ?= $(shell $(PYTHON) -c "import os; print(min(os.cpu_count() or 1, 8))")
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: audit verify test test-quick zoo lint style types format clean

# what `make verify` measures; CLAIMS='*' measures everything
CLAIMS ?= linear.*
# what `make test` runs: everything, or TESTS=tests/data
TESTS ?=

audit: $(VENV)/.installed
	$(RUN) corollary audit --out report.html

verify: $(VENV)/.installed
	$(RUN) corollary verify '$(CLAIMS)' --jobs $(JOBS)

# the type checker has one thread and takes a minute: it runs beside the tests
test: $(VENV)/.installed-dev style
	@$(MAKE) --no-print-directory types & types=$$!; \
	$(RUN) pytest -n $(JOBS) --dist worksteal -q $(TESTS); tests=$$?; wait $$types && exit $$tests

# what an edit made stale: claims by the ledger, and the unit tests named after the files that differ from HEAD
test-quick: $(VENV)/.installed-dev
	COROLLARY_SAMPLE=0 $(RUN) pytest -n $(JOBS) --dist worksteal -q tests/claims/test_claims.py \
	  $$($(VENV)/bin/python tests/changed.py)

# networks that others made, read from their packages, compared and audited; docs/results.md has the figures
zoo: $(VENV)/.installed-zoo
	$(RUN) pytest -q -m zoo --durations 0 tests/zoo

lint: style types

style: $(VENV)/.installed-dev
	$(RUN) ruff check .
	$(RUN) ruff format --check .

types: $(VENV)/.installed-dev
	$(RUN) basedpyright --pythonpath $(VENV)/bin/python

format: $(VENV)/.installed-dev
	$(RUN) ruff format .
	$(RUN) ruff check --fix .

clean:
	rm -rf $(VENV) .cache .pytest_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# A stamp is a copy of the pyproject.toml that was installed: pip, and with it the network, is asked only when that has
# changed, not when a checkout has merely written it again.
$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	@cmp -s $< $@ || $(RUN) pip install --quiet --editable .
	@cp $< $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/bin/python
	@cmp -s $< $@ || $(RUN) pip install --quiet --editable '.[dev]'
	@cp $< $@
	@cp $< $(VENV)/.installed

$(VENV)/.installed-zoo: pyproject.toml | $(VENV)/bin/python
	@cmp -s $< $@ || $(RUN) pip install --quiet --editable '.[zoo]'
	@cp $< $@
	@cp $< $(VENV)/.installed-dev
	@cp $< $(VENV)/.installed
