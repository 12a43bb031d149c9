# PYTEST="..." adds words to pytest, such as --cov=groupnoise --cov-branch.
# Every target sets up what it needs; `make demo` and `make test` work on a fresh machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests wait for processes, sockets and pages now and then: one worker more than there are cores.
# nproc would answer with OMP_NUM_THREADS where that is set.
WORKERS = $(shell echo $$(( $$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc 2>/dev/null || getconf _NPROCESSORS_ONLN) + 1 )))
# Collecting the other files would take longer than reading for a word.
SLOW_FILES = $(shell grep -rl --include='test_*.py' mark.slow tests)
# Else every process that a test starts would compile the package again.
export PYTHONDONTWRITEBYTECODE :=
# Most of what is installed is never imported: what is gets compiled then, in half the time.
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt

.PHONY: demo test wheel check lint doctest docs format slow nightly clean

demo: $(VENV)/.installed
	$(BIN)/groupnoise demo

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(PYTEST)

# The second stage: tests of several seconds each. CI runs both, side by side.
slow: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m slow $(SLOW_FILES) $(PYTEST)

# The built wheel in an environment of its own, in an empty folder.
wheel:
	PYTHON=$(PYTHON) bash tests/clean_install.sh

check: lint test slow doctest docs wheel

lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python benchmarks/readme_tables.py --check

doctest: $(VENV)/.installed-dev
	$(BIN)/python -m pytest --doctest-modules src -q

# Broken links and public names without documentation are errors.
docs: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

nightly: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m nightly $(PYTEST)

clean:
	rm -rf $(VENV) build dist site src/*.egg-info

# The constraint keeps torch at a version whose wheel needs no accelerator packages.
$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[all]'
	touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[all,dev,docs]'
	touch $(VENV)/.installed $@
