# Everything needs only Python 3.11+ with venv, make, and a package index. Where uv is
# installed, it makes the environments (seconds instead of minutes).
# Environments are made on first use, and again when their pins or PYTHON change.

PYTHON ?= python3
UV := $(shell command -v uv 2>/dev/null)
NEWEST := .venv/newest
OLDEST := .venv/oldest
WORKERS ?= logical
export WORKERS
# Where nothing writes bytecode, each process of a test compiles the source of JAX again.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := -m pytest -q -n $(WORKERS) --dist worksteal
ONE_DEVICE := $(addprefix tests/,laws test_training_loop.py test_new_objects.py test_hot_path.py)
SEEDS ?= 1 2 3
DIST ?= dist
FUZZ ?= 10000
SEED ?= 0

.PHONY: help demo bench fuzz docs examples notebooks picture scenarios pages api quick test lint types \
  test-newest test-one test-oldest random matrix dist lock clean FORCE

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*##  *\(.*\)/\1\t\2/p' Makefile | expand -t 14

demo: $(NEWEST)/.ready  ## compare every known approach to caching: a table and a page
	$(NEWEST)/bin/cachax lab --html lab.html

bench: $(NEWEST)/.ready  ## what cachax costs, compared with passing values by hand; BENCH=--quick
	$(NEWEST)/bin/python benchmarks --json bench.json $(BENCH)

fuzz: $(NEWEST)/.ready  ## random programs, with cachax and without; FUZZ=, SEED=, FUZZ_ARGS=--bodies
	PYTHONPATH=tests $(NEWEST)/bin/python -m fuzz -n $(FUZZ) --seed $(SEED) $(FUZZ_ARGS)

docs: $(NEWEST)/.ready  ## the site, in docs/_build; a warning or a dead link is an error
	$(NEWEST)/bin/python -m sphinx -q -E -n -W --keep-going docs docs/_build
	$(NEWEST)/bin/python docs/links.py docs/_build

examples: $(NEWEST)/.ready  ## run them in full; their plots are in examples/
	cd examples && for script in *.py; do ../$(NEWEST)/bin/python $$script || exit; done

notebooks: $(NEWEST)/.ready  ## the same, and make the notebooks in docs/examples again
	$(NEWEST)/bin/python docs/notebooks.py

picture: $(NEWEST)/.ready  ## draw the pictures of the lab again
	$(NEWEST)/bin/cachax lab --svg docs/lab.svg --summary docs/lab-small.svg

scenarios: $(NEWEST)/.ready  ## the table of scenarios in docs/processes.md, from tests/processes
	$(NEWEST)/bin/python docs/scenarios.py

pages: $(NEWEST)/.ready  ## write the pages of the lint rules, and their table in docs/lint.md
	$(NEWEST)/bin/python -m cachax.lint._page docs/lint.md

api: $(NEWEST)/.ready  ## write the list of public names, tests/public_api.txt
	$(NEWEST)/bin/python tests/public_api.py --write

quick: $(NEWEST)/.ready  ## lint, and a choice of tests, in less than a minute
	$(NEWEST)/bin/ruff check -q
	$(NEWEST)/bin/ruff format -q --check
	$(NEWEST)/bin/python $(PYTEST) --quick $(ARGS)

test: lint types docs test-newest test-one test-oldest dist  ## all that must hold before a change lands

lint: $(NEWEST)/.ready  ## ruff, and cachax lint on cachax
	$(NEWEST)/bin/ruff check
	$(NEWEST)/bin/ruff format --check
	$(NEWEST)/bin/cachax lint .

types: $(NEWEST)/.ready  ## mypy
	$(NEWEST)/bin/mypy

test-newest: $(NEWEST)/.ready  ## all tests on the newest JAX that PYTHON can have
	$(NEWEST)/bin/python $(PYTEST) $(ARGS)

test-one: $(NEWEST)/.ready  ## the laws and loops on one device: other tests have four
	CACHAX_TEST_DEVICES=1 $(NEWEST)/bin/python $(PYTEST) $(ONE_DEVICE) $(ARGS)

test-oldest: $(OLDEST)/.ready  ## all tests on the oldest supported JAX
	$(OLDEST)/bin/python $(PYTEST) $(ARGS)

random: $(NEWEST)/.ready  ## all tests in random order, once for each of SEEDS
	for seed in $(SEEDS); do \
	  $(NEWEST)/bin/python $(PYTEST) -p randomly --randomly-seed=$$seed $(ARGS) || exit; done

matrix:  ## a sample of the tests on every minor version of JAX: a table; needs uv
	$(PYTHON) .ci/matrix.py $(ARGS)

dist: $(NEWEST)/.ready  ## build wheel and sdist, check what is in them, install and try each
	$(NEWEST)/bin/python .ci/dist.py $(DIST)

.venv/python: FORCE  # changes when PYTHON does
	@mkdir -p .venv
	@$(PYTHON) -c 'import sys; print(sys.base_prefix, sys.version)' > $@.now
	@cmp -s $@.now $@ && rm $@.now || mv $@.now $@

.venv/%/.ready: requirements/%.txt pyproject.toml .venv/python
	rm -rf .venv/$*
ifdef UV
	$(UV) venv -q --python $(PYTHON) .venv/$*
	$(UV) pip install -q --python .venv/$*/bin/python -r $<
	$(UV) pip install -q --python .venv/$*/bin/python --no-deps -e .
else
	$(PYTHON) -m venv .venv/$*
	.venv/$*/bin/python -m pip install -q --disable-pip-version-check -r $<
	.venv/$*/bin/python -m pip install -q --disable-pip-version-check --no-deps -e .
endif
	touch $@

lock:  ## update requirements/ to the newest versions; needs uv
	uv pip compile -q -U --universal --python-version 3.11 --group dev --extra lab --extra peers \
	  --extra test --extra docs --custom-compile-command "make lock" pyproject.toml \
	  -o requirements/newest.txt
	uv pip compile -q -U --universal --python-version 3.11 --extra lab --extra test \
	  --custom-compile-command "make lock" pyproject.toml requirements/oldest.in \
	  -o requirements/oldest.txt

clean:
	rm -rf bench.json lab.html dist docs/_build docs/jupyter_execute examples/*.png \
	  .venv .hypothesis .mypy_cache .pytest_cache .ruff_cache
