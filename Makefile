# Two commands do everything: `make book` builds the book, `make test` passes its tests.
PORT ?= 8000
IN_BOOK = .venv/bin/python -m bookbinder

# The first of these that runs and is new enough (a name on the PATH may be a shim that does not run).
FIND_PYTHON = for python in $(PYTHON) python3.11 python3.12 python3.13 python3 python; do \
	$$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && break; python=; done; \
	if [ -z "$$python" ]; then \
	echo "No Python 3.11, 3.12 or 3.13 runs here: install one, or name it: make $@ PYTHON=/path/to/python3.11" >&2; exit 1; fi
PREPARE = $(FIND_PYTHON); PYTHONPATH=src $$python -m bookbinder.environment

help:
	@echo "make book       build the pages (no PyTorch needed: the notebooks carry their outputs)"
	@echo "make serve      build them and serve them on this machine (PORT=$(PORT))"
	@echo "make check      run the tests that your change may break (or those of AT=book/kv_cache), nearest first"
	@echo "make test       run the tests: package, lessons, exercises, grader, widgets in a browser, links"
	@echo "make gpu        run what waits for a GPU: tests and benchmarks, at most 8 minutes"
	@echo "make notebooks  run the notebooks whose text has changed and store their outputs"
	@echo "make grader     set up the grader, and prove that this machine can grade"
	@echo "make address URL=https://github.com/you/your-fork   say where the book lives"

book:
	@$(PREPARE) book
	@$(IN_BOOK) html

serve: book
	@$(IN_BOOK) serve --port $(PORT)

check:
	@$(PREPARE) test
	@.venv/bin/python tests/affected.py $(AT)

# A file's tests stay in one process, and the longest files come first (conftest.py). The notebooks of exercises are run
# by a round of .ci/run.
test:
	@$(PREPARE) test
	@.venv/bin/python -m pytest -n logical --dist loadscope --no-loadscope-reorder \
		--nbval --ignore-glob='*/exercises.ipynb' $(PYTEST_ARGS)

gpu:
	@test -x .venv/bin/python || { echo "make gpu installs nothing: prepare .venv first, for example with make check." >&2; exit 1; }
	@.venv/bin/python benchmarks/gpu.py $(GPU_ARGS)

notebooks:
	@$(PREPARE) test
	@$(IN_BOOK) notebooks

grader:
	@$(PREPARE) grader
	@.venv/bin/python -m llm_grader ready

address:
	@$(PREPARE) book
	@$(IN_BOOK) address $(URL)

.PHONY: help book serve check test gpu notebooks grader address
