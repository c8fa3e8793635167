# Two commands do everything on a fresh machine with Python 3.11 and make:
#   make demo    install, then train and compare sums of words on built-in data
#   make test    install, then run all checks and tests (ORDER=1 shuffles the tests with that seed)
# For the daily loop: make check, lint and the tests that are not marked slow, under two minutes.
# make test-modes repeats the tests as other processors would run them (MODES="scalar+order-1").
# make docs builds the documentation site in site/.
# Another Python: make test PYTHON=python3.12; its constraints: CONSTRAINTS= (empty for 3.10).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CONSTRAINTS ?= --constraint constraints.txt
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check $(CONSTRAINTS)

.PHONY: demo test check test-modes lint docs bench fuzz torture clean browser

demo: $(VENV)/.installed-cli
	$(BIN)/wordwave demo

# Rounding differs between processors: the numerical tests run once more without a vector unit.
NUMERICAL := tests/invariants tests/layers tests/embedding tests/models tests/test_complex.py

test: lint
	$(BIN)/python -m pytest -n 2 $(if $(ORDER),--random-order $(ORDER))
	ATEN_CPU_CAPABILITY=default $(BIN)/python -m pytest -n 2 $(NUMERICAL)

check: lint
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-modes: $(VENV)/.installed-dev
	$(BIN)/python tests/modes.py $(MODES)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# A static site that loads nothing from the network; a warning, such as a broken link, is an error.
docs: $(VENV)/.installed-docs
	mkdir -p out/docs
	if $(BIN)/wordwave explore --help > /dev/null 2>&1; \
	then $(BIN)/wordwave explore --html out/docs/explorer.html; fi
	$(BIN)/python -m sphinx --fail-on-warning --fresh-env --quiet -c docs -d out/docs/doctrees . site
	@echo "Open site/index.html"

# For tests/explore/test_browser.py, which is skipped without: Chromium, as root on Debian or Ubuntu,
# and axe-core, which checks accessibility.
browser: $(VENV)/.installed-dev
	command -v chromium || { apt-get update -qq && apt-get install -y -qq chromium; } || \
		echo "Chromium is not installed: name a browser in WORDWAVE_BROWSER"
	npm install --no-save --no-package-lock --silent axe-core@4 || \
		echo "axe-core is not installed: accessibility is not tested"

bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks

# 10,000 random cases and 300 real processes, the same for the same seed; some minutes
fuzz: $(VENV)/.installed-dev
	$(BIN)/python -m tests.fuzz --seed 0 --cases 10000 --processes 300 --jobs 2

# 100 kills and 50 full disks, half an hour on two cores; running it again continues.
torture: $(VENV)/.installed-dev
	$(BIN)/python -m tests.torture --kills 100 --full-disk 50 --seed 0 --jobs 2 --output results/reliability

clean:
	rm -rf $(VENV) out site

# torch comes first and by its exact version: any other pull brings gigabytes of CUDA packages.
$(VENV)/.installed-%: pyproject.toml constraints.txt
	@echo "Installing PyTorch (CPU, 200 MB) and wordwave[$*] into $(VENV): some minutes"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) torch==$$(sed -n 's/^torch==//p' constraints.txt)
	$(INSTALL) --editable '.[$*]'
	touch $@
