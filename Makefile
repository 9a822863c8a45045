# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
GRAPHICS := libegl1 libgl1 libgl1-mesa-dri

.PHONY: demo test test-slow lint graphics clean help

help:  ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "tdinfonce needs Python 3.11 or newer; name it with: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

demo: graphics  ## teach a robot arm to reach goals: learning curve, table and picture in runs/demo
	$(BIN)/tdinfonce train --env fetch-reach --out runs/demo --overwrite
	$(BIN)/tdinfonce eval runs/demo --picture runs/demo/episode.png

test: lint graphics  ## lint, types, layers, and the tests that take minutes
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-slow: $(VENV)/.installed  ## the checks that take longer; faults that the tests must see; the promises of docs/safety.md with their figures (hours)
	$(BIN)/python -m pip install --quiet --editable '.[dev,wandb,mlflow]'
	$(BIN)/python -m pytest -m slow
	$(BIN)/python tools/mutants.py
	$(BIN)/python tests/safety.py

# Exit code 2 says that nothing here can draw. If nothing may be installed, the tests of the image tasks fail and name
# the packages.
graphics: $(VENV)/.installed  ## what draws pictures and the image tasks; installs it if it is missing and apt may be used
	@$(BIN)/python -m tdinfonce.envs.offscreen || { \
	  test "$$?" = 2 && test "$$(id -u)" = 0 && command -v apt-get > /dev/null && apt-get -qq update && \
	  apt-get -qq install --yes --no-install-recommends $(GRAPHICS) && \
	  $(BIN)/python -m tdinfonce.envs.offscreen; } || true

lint: $(VENV)/.installed  ## ruff, mypy and import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:  ## remove the virtual environment and the runs
	rm -rf $(VENV) runs
