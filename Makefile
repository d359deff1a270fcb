# Everything needs only Python 3.11+ with venv, make, and a package index.
# Environments are made on first use, and anew when their pins change.

PYTHON ?= python3
NEWEST := .venv/newest
OLDEST := .venv/oldest
PYTEST := -m pytest -q -n 2
FUZZ ?= 10000
SEED ?= 0

.PHONY: demo bench fuzz docs examples notebooks picture pages test lint types \
  test-newest test-oldest lock clean

demo: $(NEWEST)/.ready  ## every known way of caching, measured: a table and a page
	$(NEWEST)/bin/cachax lab --html lab.html

bench: $(NEWEST)/.ready  ## what cachax costs beside the same by hand; BENCH=--quick
	$(NEWEST)/bin/python benchmarks --json bench.json $(BENCH)

fuzz: $(NEWEST)/.ready  ## random programs, with cachax and without; FUZZ=, SEED=, FUZZ_ARGS=--disturbed
	PYTHONPATH=tests $(NEWEST)/bin/python -m fuzz -n $(FUZZ) --seed $(SEED) $(FUZZ_ARGS)

docs: $(NEWEST)/.ready  ## the site, in docs/_build; a warning or a dead link is an error
	$(NEWEST)/bin/python -m sphinx -q -E -n -W --keep-going docs docs/_build
	$(NEWEST)/bin/python docs/links.py docs/_build

examples: $(NEWEST)/.ready  ## run them in full; their plots are in examples/
	cd examples && for script in *.py; do ../$(NEWEST)/bin/python $$script || exit; done

notebooks: $(NEWEST)/.ready  ## the same, and make the notebooks in docs/examples anew
	$(NEWEST)/bin/python docs/notebooks.py

picture: $(NEWEST)/.ready  ## draw the README's picture anew
	$(NEWEST)/bin/cachax lab --svg docs/lab.svg

pages: $(NEWEST)/.ready  ## write the pages of the lint rules into docs/lint.md anew
	$(NEWEST)/bin/python -m cachax.lint._page docs/lint.md

test: lint types docs test-newest test-oldest  ## all that must hold before a change lands

lint: $(NEWEST)/.ready
	$(NEWEST)/bin/ruff check
	$(NEWEST)/bin/ruff format --check
	$(NEWEST)/bin/cachax lint .

types: $(NEWEST)/.ready
	$(NEWEST)/bin/mypy

test-newest: $(NEWEST)/.ready
	$(NEWEST)/bin/python $(PYTEST)

test-oldest: $(OLDEST)/.ready
	$(OLDEST)/bin/python $(PYTEST)

.venv/%/.ready: requirements/%.txt pyproject.toml
	rm -rf .venv/$*
	$(PYTHON) -m venv .venv/$*
	.venv/$*/bin/python -m pip install -q --disable-pip-version-check -r $<
	.venv/$*/bin/python -m pip install -q --disable-pip-version-check --no-deps -e .
	touch $@

lock: $(NEWEST)/.ready  ## choose the newest versions anew, and the oldest JAX's peers
	$(NEWEST)/bin/python -m pip install -q --disable-pip-version-check uv
	$(NEWEST)/bin/uv pip compile -q -U --universal --python-version 3.11 --group dev \
	  --extra lab --extra peers --custom-compile-command "make lock" pyproject.toml -o requirements/newest.txt
	$(NEWEST)/bin/uv pip compile -q -U --universal --python-version 3.11 --group test \
	  --extra lab --custom-compile-command "make lock" pyproject.toml requirements/oldest.in \
	  -o requirements/oldest.txt

clean:
	rm -rf bench.json lab.html docs/_build docs/jupyter_execute examples/*.png .venv .hypothesis .mypy_cache .pytest_cache .ruff_cache
