# `make demo` and `make test` set up what they need in $(VENV) and reuse what is there.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
.DEFAULT_GOAL := help

.PHONY: help
help: ## list what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

$(BIN)/python:
	@echo "advshift: making a virtual environment in $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "advshift needs Python 3.11 or later; set PYTHON=...")'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.demo-ready: pyproject.toml constraints.txt | $(BIN)/python
	@echo "advshift: installing the package and what the demo needs (about a minute, once)"
	@$(PIP) install --quiet --constraint constraints.txt --editable '.[demo]'
	@touch $@

$(VENV)/.dev-ready: pyproject.toml constraints.txt | $(BIN)/python
	@echo "advshift: installing the package with everything that tests, types and docs need (some minutes, once)"
	@$(PIP) install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@ $(VENV)/.demo-ready

.PHONY: demo
demo: $(VENV)/.demo-ready ## train two models on long-tailed digits and show how bad they can get
	@$(BIN)/advshift demo

.PHONY: setup
setup: $(VENV)/.dev-ready ## install everything for development

.PHONY: check
check: setup ## check format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

.PHONY: format
format: setup ## rewrite the sources in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: docs
docs: setup ## build the documentation into docs/_build
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going docs docs/_build

.PHONY: test
test: setup ## run the tests, the doctests and the code blocks of README and docs
	@$(BIN)/python -m pytest --numprocesses 2 --quiet -m 'not slow'

.PHONY: slow
slow: setup ## run the tests that the gate is too short for
	@$(BIN)/python -m pytest --quiet -m slow

.PHONY: bench
bench: setup ## run the benchmarks of the uncertainty sets
	@$(BIN)/python benchmarks/sets.py
