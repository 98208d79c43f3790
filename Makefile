# Everything a newcomer types: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo test lint format docs bench size corpus sweep original parity parity-random random clean

# The stamp is renewed when the dependencies change.
$(VENV)/dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --no-compile -e '.[dev]'
	touch $@

$(VENV)/demo: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -e '.[demo]'
	touch $@

demo: $(VENV)/demo
	$(BIN)/netgrad demo --output demo-output

test: lint
	$(BIN)/pytest -n auto

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The generated pages of docs/; a test compares them with what is committed.
docs: $(VENV)/dev
	$(BIN)/python docs/generate.py

bench: $(VENV)/dev
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/size.py
	$(BIN)/python benchmarks/caffe2.py

# Gradients of every node test of the standard, in three forms; takes about a quarter of an hour.
sweep: $(VENV)/dev
	$(BIN)/python -m tests.sweep

# Agreement with PyTorch. PyTorch is no dependency of netgrad, and not part of `make test`.
parity: $(VENV)/dev
	$(PIP) install 'torch==2.13.0'
	$(BIN)/pytest tests/parity

# Random graphs against PyTorch's autograd; the record says which were tried.
parity-random: $(VENV)/dev
	$(PIP) install 'torch==2.13.0'
	$(BIN)/python -m tests.parity.random_graphs --graphs 2000 --seed 0 --record benchmarks/results/random_graphs_pytorch.json

# Caffe2's own test files, fetched into .cache/, with netgrad in Caffe2's place.
# They compare with things that NumPy 2.4 and SciPy 1.14 have dropped, and some import PyTorch.
original:
	$(PYTHON) -m venv $(VENV)-original
	$(VENV)-original/bin/python -m pip --quiet install -e '.[dev]' 'numpy<2.3' 'scipy<1.14' 'torch==2.13.0' pytest-timeout tabulate
	$(VENV)-original/bin/python -m tests.original
	ORIGINAL_RELEASE=1.0.0 $(VENV)-original/bin/python -m tests.original

# Real models: fetched into .cache/, differentiated as shipped, held against central differences.
corpus: $(VENV)/dev
	$(BIN)/python -m tests.corpus

# Random graphs of 20 to 200 nodes against central differences; the record says which were tried.
random: $(VENV)/dev
	$(BIN)/python -m tests.onnx.random_graphs --graphs 2000 --seed 0 --record benchmarks/results/random_graphs.json

clean:
	rm -rf $(VENV) demo-output dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
