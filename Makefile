# PYTEST="..." adds words to pytest, such as --cov=groupnoise --cov-branch.
# Every target sets up what it needs; `make demo` and `make test` work on a fresh machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test wheel check lint doctest docs format slow nightly clean

demo: $(VENV)/.installed
	$(BIN)/groupnoise demo

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n auto --dist loadfile $(PYTEST)

# The second stage: tests of several seconds each. CI runs both.
slow: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n auto --dist worksteal -m slow $(PYTEST)

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

$(VENV)/.installed-dev: $(VENV)/.installed
	$(INSTALL) -e '.[all,dev,docs]'
	touch $@
