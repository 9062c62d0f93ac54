# Three commands do everything on a machine with Python and make: `make audit`, `make verify` and `make test`.

PYTHON ?= python3
BIN := .venv/bin
JOBS ?= $(shell $(PYTHON) -c "import os; print(min(os.cpu_count() or 1, 8))")
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: audit verify test test-quick lint format clean

# what `make verify` measures; CLAIMS='*' measures everything
CLAIMS ?= linear.*

audit: .venv/.installed
	$(BIN)/corollary audit --out report.html

verify: .venv/.installed
	$(BIN)/corollary verify '$(CLAIMS)' --jobs $(JOBS)

test: .venv/.installed-dev lint
	$(BIN)/pytest -n $(JOBS) --dist worksteal -q

# what an edit made stale: claims by the ledger, and the unit tests named after the files that differ from HEAD
test-quick: .venv/.installed-dev
	COROLLARY_SAMPLE=0 $(BIN)/pytest -n $(JOBS) --dist worksteal -q tests/claims/test_claims.py \
	  $$($(BIN)/python tests/changed.py)

lint: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: .venv/.installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv .cache .pytest_cache .ruff_cache .hypothesis

.venv/bin/python:
	$(PYTHON) -m venv .venv

# The stamps are older than pyproject.toml exactly when something about the dependencies may have changed.
.venv/.installed: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

.venv/.installed-dev: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@ .venv/.installed
