# Two commands do everything on a fresh machine with Python 3.11 and make:
#   make demo    install, then run the main job on built-in data
#   make test    install, then run every check and test (ORDER=1 shuffles the tests by that seed)
# make test-modes repeats the tests as other processors would run them (MODES="scalar order-1")

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-modes lint bench fuzz torture clean

demo: $(VENV)/.installed-cli
	$(BIN)/wordwave demo

# Rounding differs between processors: the numerical tests run once more without a vector unit.
NUMERICAL := tests/invariants tests/layers tests/embedding tests/models tests/test_complex.py

test: lint
	$(BIN)/python -m pytest -n 2 $(if $(ORDER),--random-order $(ORDER))
	ATEN_CPU_CAPABILITY=default $(BIN)/python -m pytest -n 2 $(NUMERICAL)

test-modes: $(VENV)/.installed-dev
	$(BIN)/python tests/modes.py $(MODES)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks

# 10,000 random cases and 300 real processes, the same for the same seed; some minutes
fuzz: $(VENV)/.installed-dev
	$(BIN)/python -m tests.fuzz --seed 0 --cases 10000 --processes 300 --jobs 2

# 100 kills and 50 full disks, half an hour on two cores; running it again continues.
torture: $(VENV)/.installed-dev
	$(BIN)/python -m tests.torture --kills 100 --full-disk 50 --seed 0 --jobs 2 --output results/reliability

clean:
	rm -rf $(VENV) out

# torch comes first and by its exact version: any other pull brings gigabytes of CUDA packages.
$(VENV)/.installed-%: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) torch==$$(sed -n 's/^torch==//p' constraints.txt)
	$(INSTALL) --editable '.[$*]'
	touch $@
