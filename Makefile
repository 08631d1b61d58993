# Every target makes the virtual environment it needs, and is quick when nothing changed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test check bench study results pictures clean

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: $(READY)
	$(BIN)/ampere profile lenet5 --device cpu --threads 1 --budget 60s --out build/demo/lenet5.json --fresh
	$(BIN)/ampere estimate lenet5 --profile build/demo/lenet5.json --iterations 1000 --battery 15Wh
	$(BIN)/ampere evaluate lenet5 --profile build/demo/lenet5.json --models 3 --report build/demo/report.html

test: $(READY)
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy docs/pictures.py
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/python -m benchmarks.speed

results: $(READY)
	$(BIN)/python -m benchmarks.pages

pictures: $(READY)
	$(BIN)/python docs/pictures.py

study: $(READY)
	$(BIN)/python -m benchmarks

clean:
	rm -rf build $(VENV)
