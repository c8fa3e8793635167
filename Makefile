# Two commands do everything on a fresh machine with Python 3.11 and make:
#   make demo    install, then run the main job on built-in data
#   make test    install, then run every check and test

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test lint bench fuzz clean

demo: $(VENV)/.installed-cli
	$(BIN)/wordwave demo

test: lint
	$(BIN)/python -m pytest -n 2

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

clean:
	rm -rf $(VENV) out

# torch comes first and by its exact version: any other pull brings gigabytes of CUDA packages.
$(VENV)/.installed-%: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) torch==$$(sed -n 's/^torch==//p' constraints.txt)
	$(INSTALL) --editable '.[$*]'
	touch $@
