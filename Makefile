# Everything a developer runs. The environment in .venv is made on the first call of any target; with
# PYTHON=/path/to/python3.13 it is .venv-3.13, so that interpreters do not overwrite each other's.
PYTHON ?= python3
VENV := .venv
ifneq ($(origin PYTHON),file)
VENV := .venv-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
endif
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Most of a live test is waiting for a server: there are more workers than processors.
WORKERS ?= 4
PARALLEL := -n $(WORKERS)
# The tests start hundreds of interpreters, and each would compile the two packages again.
unexport PYTHONDONTWRITEBYTECODE

# What needs no server, no terminal and no tools.
UNIT := tests/core tests/tui -m "not (soak or live or terminal or tools)"
LOWEST := .venv-lowest

.PHONY: demo test unit test-lowest lint soak mutants bench screenshots docs dist tools clean

demo: $(READY)
	@$(BIN)/tallyglass demo

test: $(READY)
	$(BIN)/python -m pytest $(PARALLEL) -m "not soak"

unit: $(READY)
	$(BIN)/python -m pytest $(PARALLEL) $(UNIT)

test-lowest: $(LOWEST)/.ready
	$(LOWEST)/bin/python -m pytest -p no:cacheprovider $(PARALLEL) $(UNIT)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

soak: $(READY)
	$(BIN)/python -m pytest $(PARALLEL) -m soak

mutants: $(READY)
	$(BIN)/python -m tests.mutants

bench: $(READY)
	$(BIN)/python -m bench

screenshots: $(READY)
	$(BIN)/python -m screenshots.make

# The site, in site/. A link that leads nowhere is an error.
docs: $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# Wheel and source distribution in dist/, each tried in an environment of its own.
dist: $(READY)
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist
	$(BIN)/python packaging/check_dist.py dist

tools:
	@sh tools.sh

clean:
	rm -rf .venv .venv-* .tools .mypy_cache .pytest_cache .ruff_cache .hypothesis dist site

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Tallyglass needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Preparing $(VENV) (once; takes about a minute)" >&2
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[tui,demo,dev]'
	@touch $(READY)

# The lowest version of each dependency that pyproject.toml allows.
$(LOWEST)/.ready: pyproject.toml constraints-lowest.txt
	@echo "Preparing $(LOWEST)" >&2
	@$(PYTHON) -m venv $(LOWEST)
	@$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-lowest.txt -e '.[tui,test]'
	@touch $@
