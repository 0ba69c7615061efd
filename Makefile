# `make tour` and `make test` do all their own setting up, on a fresh machine too. It is done once,
# into .venv, and again only when pyproject.toml or constraints.txt change.

PYTHON ?= python3
TORCH  ?= 2.13.0
BIN    := .venv/bin
PIP    := $(BIN)/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt

.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help page pictures tour test all everything checks lint types docs links wheel pytest quick slowest oldest notebooks browser tex format lock clean

# What Python compiles is kept for the next process, whatever this shell says: there are many.
unexport PYTHONDONTWRITEBYTECODE

help:
	@echo 'make tour    see what Viète does (sets itself up: about half a minute, the first time)'
	@echo 'make test    before every change (about 4 minutes): lint, types, links, wheel, pytest'
	@echo 'make quick   the laws with few examples, and one of everything'
	@echo 'make all     everything: make test with all that is slow, every card and every combination,'
	@echo '             and notebooks, browser, tex (the hosted workflow runs this)'
	@echo 'make slowest which tests make all runs alone, measured anew (an idle machine; half an hour or more)'
	@echo 'make oldest  the tests, with the oldest versions that pyproject.toml admits'
	@echo 'make notebooks of docs/notebooks: they run, and what they find holds of other texts'
	@echo 'make page    build the page of viete explore from page/src (needs node and npm)'
	@echo 'make pictures of the page, for docs/ (needs chromium and node)'
	@echo 'make browser pages in headless Chromium, exported JavaScript in Node (needs chromium and node)'
	@echo 'make tex     the LaTeX of every shipped card, in pdfLaTeX (needs texlive-latex-extra)'
	@echo 'make format  put the code into the house format'
	@echo 'make links   check the links and formulas of the documentation, without what it embeds'
	@echo 'make docs    build the documentation into site/'
	@echo 'make lock    write constraints.txt anew, from today'\''s newest versions'
	@echo 'make clean   remove .venv and whatever was built'

tour: .venv/.runtime
	@$(BIN)/viete tour

# Everything but pytest has one of the cores beside it, and is done long before: pytest's closing
# line is the last thing to be read, unless a check has failed.
test: .venv/.dev
	@log=$$(mktemp) && trap "rm -f $$log" EXIT && \
	{ $(MAKE) --no-print-directory checks >$$log 2>&1; done=$$?; cat $$log; exit $$done; } & checks=$$!; \
	$(MAKE) --no-print-directory pytest; tests=$$?; \
	wait $$checks || { echo 'make test: one of lint, types, docs and wheel has failed: see above' >&2; exit 1; }; \
	exit $$tests

# To the end, whatever fails: of what takes so long, one wants to know all.
all: .venv/.dev
	$(MAKE) --no-print-directory --keep-going everything notebooks browser tex

everything: .venv/.dev
	$(MAKE) --no-print-directory test CASES=--all

# The site with all that its pages embed is built by `make docs`, and by `make all`.
checks: lint types $(if $(CASES),docs,links) wheel

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.dev
	$(BIN)/mypy

docs: .venv/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

links: .venv/.dev
	VIETE_EMBED=none NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir .cache/site

wheel: .venv/.dev
	bash tests/wheel_check.sh $(BIN)/python

# Two workers, with one thread each, so that they do not fight over two cores.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest
# What is slow, and all cards and combinations where some stand for them: CASES=--all.
CASES =
pytest: .venv/.dev
	$(PYTEST) -n 2 --dist loadfile --no-loadscope-reorder $(CASES)

quick: .venv/.dev
	$(PYTEST) -n 2 --dist loadfile --no-loadscope-reorder --quick

slowest: .venv/.dev
	$(PYTEST) -n 2 --dist loadfile --no-loadscope-reorder --all --slowest

# In an environment of its own, with every version at its bound.
oldest:
	@old=$$(mktemp -d) && trap "rm -rf $$old" EXIT && set -e && \
	$(PYTHON) -m venv $$old/venv && \
	$(PYTHON) -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	  x = [*p["dependencies"], *(r for k, v in p["optional-dependencies"].items() if k != "dev" for r in v)]; \
	  print(*{r.replace(">=", "==") for r in x if ">=" in r}, sep="\n")' >$$old/bounds && \
	$$old/venv/bin/python -m pip install -qq --disable-pip-version-check \
	  --constraint $$old/bounds --editable '.[test]' && \
	$(subst $(BIN),$$old/venv/bin,$(PYTEST)) -n 2 --dist loadfile --no-loadscope-reorder --all

# The bundle is committed, so that nobody else needs Node; a test finds a stale one.
page: page/node_modules
	cd page && npm run check && npm run build

page/node_modules: page/package-lock.json
	cd page && npm ci --no-fund --no-audit && touch node_modules

pictures: .venv/.dev
	$(BIN)/python -m tests.browser.pictures docs/pictures

browser: .venv/.dev page/node_modules
	$(PYTEST) --all -m browser tests/browser

# Outputs are written anew by: python -m tests.notebooks.running docs/notebooks/NAME.ipynb
notebooks: .venv/.dev
	$(PYTEST) --all -m notebooks --durations=0 tests/notebooks

tex: .venv/.dev
	$(PYTEST) --all -m tex tests/tex

format: .venv/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Resolved in an empty environment. A local version (torch 2.13.0+cpu) names one machine's build,
# and 2.13.0 admits it, so it is cut off.
lock:
	@new=$$(mktemp -d) && trap "rm -rf $$new" EXIT && set -e && \
	$(PYTHON) -m venv $$new/venv && \
	$$new/venv/bin/python -m pip install -qq torch==$(TORCH) editables '.[dev]' && \
	$$new/venv/bin/python -m pip freeze --all >$$new/freeze && \
	{ echo '# The versions that Viète is tested with. Written by `make lock`: do not edit.'; \
	  grep -Ev '^(pip|viete)( |=)' $$new/freeze | sed 's/+.*//'; } >$$new/lock && \
	cp $$new/lock constraints.txt

clean:
	rm -rf .venv build dist site .pytest_cache .ruff_cache .mypy_cache .hypothesis

# Setting up ---------------------------------------------------------------------------------

.venv/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Viète needs Python 3.11 or newer, and '$(PYTHON)' is older or missing: name another one, as in make PYTHON=python3.12." >&2; \
	  exit 1; }
	@echo 'Setting up .venv, once ...'
	@$(PYTHON) -m venv .venv
	@touch $@

# hatchling is installed beside the package, pinned like the rest, and used from there.
.venv/.runtime: .venv/.made pyproject.toml constraints.txt
	@$(PIP) hatchling editables
	@$(PIP) --no-build-isolation --editable .
	@touch $@

.venv/.dev: .venv/.runtime
	@echo 'Installing what the tests need, once (PyTorch among it: a minute or two) ...'
	@$(PIP) --no-build-isolation --editable '.[dev]'
	@touch $@
