# Development commands. The first call of any target creates the environment .venv. PYTHON=/path/to/python3.13 uses
# .venv-3.13 instead, so that interpreters do not overwrite each other's.
PYTHON ?= python3
VENV := .venv
ifneq ($(origin PYTHON),file)
VENV := .venv-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
endif
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Live tests mostly wait for servers: use more workers than processors.
WORKERS ?= 6
PARALLEL = -n $(WORKERS)
# The tests start hundreds of interpreters, which would each compile both packages again.
unexport PYTHONDONTWRITEBYTECODE

# Tests that need no server, no terminal and no database tools.
UNIT := tests/core tests/tui tests/adversary -m "not (soak or long or live or terminal or tools)"
LOWEST := .venv-lowest

.PHONY: demo test test-all unit test-lowest lint soak adversary mutants bench screenshots docs dist packages tools clean

demo: $(READY)
	@$(BIN)/tallyglass demo

test: WORKERS := 3
test: $(READY)
	$(BIN)/python -m pytest $(PARALLEL) -m "not (soak or long) and (smoke or not (live or terminal or tools))"

# All that is not marked "soak", as in CI.
test-all: $(READY)
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

# Soak tests check time limits, and each of them uses a processor.
soak: WORKERS := 2
soak: $(READY)
	$(BIN)/python -m pytest $(PARALLEL) -m soak

# Undo 100,000 accidents in worlds from a seed, without a server; CASES=2000 for fewer.
CASES ?= 100000
adversary: $(READY)
	$(BIN)/python -m tests.adversary --dense $(CASES)

mutants: $(READY) tools
	$(BIN)/python -m tests.mutants

bench: $(READY)
	$(BIN)/python -m bench

screenshots: $(READY) tools
	$(BIN)/python -m screenshots.make
	$(BIN)/python -m screenshots.film
	$(BIN)/python -m screenshots.films

# Build the documentation into site/. A broken link is an error.
docs: $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# Build wheel and source distribution into dist/, and check each in a new environment.
dist: $(READY)
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist
	$(BIN)/python packaging/check_dist.py dist

# What a bastion host installs, in dist/, each tried in an empty root. It takes some minutes.
packages: dist
	@sh packaging/interpreter.sh .tools/interpreter
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[packages]'
	$(BIN)/python packaging/build.py dist
	$(BIN)/python packaging/check_packages.py dist
	$(BIN)/python packaging/check_container.py dist

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
