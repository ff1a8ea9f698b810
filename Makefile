PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEV := $(VENV)/.dev
PEERS := $(VENV)/.peers

.DEFAULT_GOAL := help
.PHONY: demo test test-slow lint format benchmark reproduce docs clean help

demo: $(DEV) ## fit two posteriors, print a summary, write figures
	$(BIN)/python examples/demo.py

test: lint ## lint, type-check and run the tests
	$(BIN)/pytest -n auto --dist worksteal -m 'not slow'

# Long runs want better code than the quick tests, which run theirs once (tests/conftest.py).
test-slow: export XLA_FLAGS = --xla_backend_optimization_level=1 --xla_llvm_disable_expensive_passes=true
test-slow: $(DEV) ## run the tests that take long
	$(BIN)/pytest -n auto --dist worksteal -m slow

lint: $(DEV) ## check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

format: $(DEV) ## fix style and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmark: $(PEERS) ## time steinflow against its peers
	$(BIN)/python -m benchmarks

reproduce: $(DEV) ## every figure and table of the paper, into reproduced/ (QUICK=1: smaller, minutes)
	$(BIN)/steinflow reproduce $(if $(QUICK),--quick --output reproduced-quick)

docs: $(DEV) ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean: ## remove the environment and everything built
	rm -rf $(VENV) site dist build .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(DEV): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	  "steinflow needs Python 3.11 or newer: make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --constraint constraints.txt --editable '.[dev]'
	@touch $@

# A peer that cannot be installed is left out of the benchmark.
$(PEERS): $(DEV) benchmarks/requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --constraint constraints.txt --requirement benchmarks/requirements.txt \
	  && touch $@ || echo 'Some peers are missing; the benchmark goes on without them.'
