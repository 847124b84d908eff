# Everything runs from a fresh clone with Python >= 3.11 (with venv), git and make.
PYTHON ?= python3
BIN := .venv/bin
# The matrices are small, and threads wait for each other on a busy machine.
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: demo test test-slow lint format docs clean

demo: .venv/installed
	$(BIN)/python examples/demo.py

test: .venv/installed
	$(BIN)/python -m pytest -m "not slow and not data" -n auto

test-slow: .venv/installed
	$(BIN)/python -m pytest -m "slow or data" -n auto

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: .venv/installed
	$(BIN)/python docs/make_commands.py

clean:
	rm -rf .venv demo build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.venv/installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "dpgraph needs Python 3.11 or newer: make PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch $@
