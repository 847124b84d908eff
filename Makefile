# Everything runs from a fresh clone with Python >= 3.11 (with venv), git and make.
PYTHON ?= python3
BIN := .venv/bin
# Installs into a virtual environment: by uv, in a fifth of pip's time, or by pip where uv cannot be had or does not reach an
# index that pip is set up for. What is never imported is not compiled; all else is at its first import.
PIP := -m pip install --quiet --no-compile --disable-pip-version-check
install = { [ -x $(BIN)/uv ] && $(BIN)/uv pip install --quiet --system-certs --python $(1)/bin/python $(2); } || $(1)/bin/python $(PIP) $(2)
# Three tiers of tests: what a contributor runs; what CI adds (slow, data, browser); all else, before a release (long,
# tools, power, other versions). The libraries of portals are many, and a browser needs one of its own.
OTHERS := tests/unit/common/vocabularies tests/browser
QUICK := -m "not slow and not long and not data and not browser and not tools and not power" $(OTHERS:%=--ignore %)
# The files that have tests of a mark; only they are imported to find them.
marked = $$(grep -rlE --include "test_*.py" 'mark\.($(1))\b' tests)
# A worker begins with tests that stand together, which share what they need, and takes from the others when it is through.
WORKERS := -n logical --dist worksteal
# The matrices are small, and threads wait for each other on a busy machine.
export OPENBLAS_NUM_THREADS ?= 1
# Without compiled files, every process of the tests would compile all of them for itself, for a minute.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-long coverage lint format docs site reproduce bench dist clean
.PHONY: test-slow test-browser test-minimum test-newest test-tools test-power test-types

demo: .venv/installed
	$(BIN)/python examples/demo.py

# No test takes two seconds.
test: .venv/installed
	$(BIN)/python -m pytest $(QUICK) $(WORKERS)

# All that `.ci/run` leaves out: before a release, on a machine with Chromium, npm, minisign and R, as root.
test-long: .venv/installed-dev .venv/installed-docs tests/browser/node_modules/installed
	.ci/stage coverage
	.ci/stage test-minimum
	.ci/stage test-newest
	.ci/stage test-tools
	.ci/stage test-power
	.ci/stage test-types
	.ci/stage site WHOLE=1
	$(BIN)/python -m pytest -m long $(call marked,long) $(WORKERS)

# Lines that the quick tests run through; less than 90 % is an error.
coverage: .venv/installed-dev
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q $(QUICK) $(WORKERS)
	$(BIN)/coverage combine -q
	$(BIN)/coverage report --skip-covered --sort cover

# Statistics, the real tables, and what the libraries of portals make of bundles.
test-slow: .venv/installed-dev
	$(BIN)/python -m pytest -m "(slow or data) and not long and not browser and not tools" $(WORKERS) \
		$(call marked,slow|data) tests/unit/common/vocabularies

# Opens every kind of page in this machine's Chromium, without network, those of the site as it was last built;
# axe-core comes from npm. PICTURES=1 keeps a picture of each page in tests/browser/pictures.
test-browser: .venv/installed-dev tests/browser/node_modules/installed docs/_build/html/index.html
	$(BIN)/python -m pytest -m "browser and not long" tests/browser $(WORKERS)

# Bundles verified by minisign, and results read by R.
test-tools: .venv/installed-dev
	@command -v minisign > /dev/null || { echo "these tests need minisign: install it (apt-get install minisign)" >&2; exit 1; }
	@Rscript -e 'library(qgraph); library(igraph); library(jsonlite)' > /dev/null 2>&1 || { echo "these tests need R with qgraph, igraph and jsonlite: install them (apt-get install r-cran-qgraph r-cran-igraph r-cran-jsonlite)" >&2; exit 1; }
	$(BIN)/python -m pytest -m tools $(call marked,tools) $(WORKERS)

# Takes the power from a disk of its own; only root may mount one, and a container may be without loop devices.
test-power: .venv/installed-dev
	@why=$$($(BIN)/python -c 'from tests.accidents.power import why_not; print(why_not() or "")'); \
	if [ -z "$$why" ]; then $(BIN)/python -m pytest -m power tests/accidents; else echo "NOT RUN: test-power, as $$why" >&2; fi

# A script that uses the whole public surface, for pyright in its strict mode.
test-types: .venv/installed-lint .venv-types/installed
	$(BIN)/python .ci/surface.py .venv-types

# The quick suite with the least versions of everything; tools of the tests are as new as they come, and may warn of that.
# Kernels have a folder of their own, as each version of numba throws away those of others.
test-minimum: .venv-minimum/installed
	NUMBA_CACHE_DIR=$(CURDIR)/.venv-minimum/kernels .venv-minimum/bin/python -m pytest $(QUICK) $(WORKERS) -o filterwarnings=default \
		--deselect tests/e2e/test_messages.py # some words are those of libraries

# The quick suite with the newest Python on this machine.
test-newest: .venv-newest/installed
	.venv-newest/bin/python -m pytest $(QUICK) $(WORKERS)

lint: .venv/installed-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/words.py

format: .venv/installed-lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: .venv/installed
	$(BIN)/python docs/make_commands.py
	$(BIN)/python docs/make_reference.py

# The site, in docs/_build/html; whatever Sphinx warns of is an error. Tutorials are run where their code has changed since
# docs/executed.py kept what they show; WHOLE=1 runs all of them, and begins anew.
site: .venv/installed-docs
	$(if $(WHOLE),rm -rf docs/_build docs/_made docs/explained docs/reference/api)
	WHOLE=$(WHOLE) $(BIN)/python -m sphinx -W --keep-going -q -d docs/_build/doctrees docs docs/_build/html

# The papers' tables and figures, in docs/reproduction: everything in 14 minutes on two cores; QUICK=1 in two minutes,
# compared with what is stored there; ONLY="guo_table_1a guo_table_2" some of them.
reproduce: .venv/installed-reproduce
	cd benchmarks && ../$(BIN)/python -m reproduction $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY)) $(if $(JOBS),--jobs $(JOBS))

# Ratios of time against peers, appended to docs/benchmarks/history.csv under this commit; about a minute.
bench: .venv/installed-reproduce
	cd benchmarks && ../$(BIN)/python tracked.py

docs/_build/html/index.html:
	$(MAKE) site

# sdist and wheel, the same bytes wherever this commit is built; what they were installed with (CycloneDX); and digests.
# The wheel alone, in an empty environment and away from the sources, runs the demo.
dist: .venv/installed-dev
	rm -rf dist .venv-dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct || date +%s -r CHANGELOG.md) $(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/twine check --strict dist/*
	$(PYTHON) -m venv .venv-dist
	$(call install,.venv-dist,dist/*.whl)
	cd .venv-dist && bin/dp-bundle --version && bin/python ../examples/demo.py
	$(BIN)/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml --output-file dist/dpgraph.cdx.json .venv-dist
	cd .venv-dist && bin/python -c "from dp_publish.release.preparing import code_digest; print(code_digest())" > ../dist/CODE-SHA256
	cd dist && sha256sum * > SHA256SUMS

clean:
	rm -rf .venv .venv-minimum .venv-newest .venv-types .venv-dist demo build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage*
	rm -rf tests/browser/node_modules tests/browser/pictures
	rm -rf docs/_build docs/_made docs/explained docs/reference/api

.venv/installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "dpgraph needs Python 3.11 or newer: make PYTHON=...")'
	$(PYTHON) -m venv .venv
	-$(BIN)/python $(PIP) uv
	$(call install,.venv,--editable ".[test]")
	touch $@

.venv/installed-lint .venv/installed-dev .venv/installed-docs: .venv/installed-%: .venv/installed
	$(call install,.venv,--editable ".[$*]")
	touch $@

tests/browser/node_modules/installed: tests/browser/package-lock.json
	@command -v npm > /dev/null || { echo "the tests of pages need npm: install it (apt-get install npm)" >&2; exit 1; }
	cd tests/browser && npm ci --silent
	touch $@

.venv/installed-reproduce: .venv/installed-dev benchmarks/reproduction/requirements.txt
	$(call install,.venv,-r benchmarks/reproduction/requirements.txt)
	touch $@

.venv-types/installed:
	$(PYTHON) -m venv .venv-types
	$(call install,.venv-types,basedpyright pyarrow-stubs)
	touch $@

.venv-minimum/installed: .venv/installed
	$(PYTHON) -m venv .venv-minimum
	$(BIN)/python .ci/minimums.py > .venv-minimum/constraints.txt
	$(call install,.venv-minimum,--editable ".[test]" --constraint .venv-minimum/constraints.txt)
	touch $@

.venv-newest/installed: .venv/installed
	$$($(PYTHON) .ci/newest.py) -m venv .venv-newest
	$(call install,.venv-newest,--editable ".[test]")
	touch $@
