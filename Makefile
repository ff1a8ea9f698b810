PYTHON ?= python3
VENV := .venv
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
# The versions that are tested: Python 3.11 has older ones of nearly everything.
CONSTRAINTS := constraints-$(if $(filter 3.11,$(VERSION)),3.11,newest).txt
BIN := $(VENV)/bin
# Modules are compiled once, not by every process that the tests start.
unexport PYTHONDONTWRITEBYTECODE
DEV := $(VENV)/.dev-$(VERSION)
PEERS := $(VENV)/.peers

# uv works on all cores, pip on one; pip takes over where uv cannot be had or does not reach the registry.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
UV := $(BIN)/uv pip install --quiet --python $(BIN)/python
EVERYTHING := --constraint $(CONSTRAINTS) --editable '.[dev]'

.DEFAULT_GOAL := help
.PHONY: demo test suite test-newest test-lowest test-slow lint format benchmark reproduce docs docs-version dist clean help

demo: $(DEV) ## fit two posteriors, print a summary, write figures
	$(BIN)/python examples/demo.py

test: $(DEV) ## lint, type-check and run the tests
	$(MAKE) --no-print-directory --jobs=2 lint suite

# One worker more than processors: some tests wait, for programs that they start or for a browser.
WORKERS := $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')

suite: $(DEV)
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -m 'not slow'

test-newest: $(DEV) ## run the tests on the newest Python of this machine, and exchange files with it
	@if python=$$(.ci/newest-python); then \
	  $(MAKE) suite VENV=.venv-newest PYTHON=$$python && .ci/exchange $(BIN)/python .venv-newest/bin/python; \
	else \
	  echo 'There is no Python 3.12 or newer here to test with; make test-newest NEWEST=/path/to/python names one.'; \
	fi

test-lowest: build/constraints-lowest.txt ## run the tests with the lowest versions that pyproject.toml allows
	$(MAKE) suite VENV=.venv-lowest CONSTRAINTS=$<

build/constraints-lowest.txt: pyproject.toml .ci/lowest.py
	@mkdir -p $(@D)
	$(PYTHON) .ci/lowest.py > $@

# Long runs want better code than the quick tests, which run theirs once (tests/conftest.py).
test-slow: export XLA_FLAGS = --xla_backend_optimization_level=1 --xla_llvm_disable_expensive_passes=true
test-slow: $(DEV) ## run the tests that take long
	$(BIN)/pytest -n auto --dist worksteal -m slow

lint: $(DEV) ## check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyrefly check --python-interpreter-path $(BIN)/python --summary=none

format: $(DEV) ## fix style and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmark: $(PEERS) ## time steinflow against its peers
	$(BIN)/python -m benchmarks

reproduce: $(DEV) ## every figure and table of the paper, into reproduced/ (QUICK=1: smaller, minutes)
	$(BIN)/steinflow reproduce $(if $(QUICK),--quick --output reproduced-quick)

docs: $(DEV) ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-version: $(DEV) ## keep the documentation in the branch gh-pages as NAME=0.1, with ALIAS=latest for the newest release
	NO_MKDOCS_2_WARNING=1 PATH="$(abspath $(BIN)):$$PATH" mike deploy --update-aliases $(NAME) $(ALIAS)
	$(if $(ALIAS),$(BIN)/mike set-default $(ALIAS))

dist: $(DEV) ## build wheel and sdist into dist/, and try the wheel in empty environments
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python .ci/check_dist.py dist

clean: ## remove the environment and everything built
	rm -rf $(VENV) .venv-newest .venv-lowest site dist build .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(DEV): pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	  "steinflow needs Python 3.11 or newer: make PYTHON=/path/to/python3.11")'
	@test -e $@ || rm -rf $(VENV) # it is that of another Python, or was not finished
	$(PYTHON) -m venv $(VENV)
	$(PIP) uv && $(UV) $(EVERYTHING) || $(PIP) $(EVERYTHING)
	@touch $@

# A peer that cannot be installed is left out of the benchmark.
$(PEERS): $(DEV) benchmarks/requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --constraint $(CONSTRAINTS) --requirement benchmarks/requirements.txt \
	  && touch $@ || echo 'Some peers are missing; the benchmark goes on without them.'
