# Works with nothing but python3 (3.10 to 3.13), its venv module and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
OUTPUT ?= demo
SAMPLES := pipelines/prosocial/samples

.PHONY: help install demo test check benchmark clean

help:
	@echo "make demo       install, fetch the embedded model, publish a small dataset, say where"
	@echo "make test       install, run all tests"
	@echo "make check      install, run the linters and the type checker"
	@echo "make benchmark  install, run the benchmarks"
	@echo "make clean      remove the virtual environment and the demo's output"

install: $(INSTALLED)

# uv installs in a fraction of pip's time; where it can't be had, pip does the same work.
# Bytecode is compiled at once: a first import of Beam takes four times as long without it.
$(INSTALLED): setup.py
	@echo "== creating $(VENV) with $(PYTHON)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv || true
	@echo "== installing remint and what it stands on (one to three minutes)"
	@if [ -x $(BIN)/uv ]; then \
		VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --compile-bytecode --editable '.[embedded,dev]'; \
	else \
		$(BIN)/python -m pip install --disable-pip-version-check --editable '.[embedded,dev]'; \
	fi
	@touch $@

# People's work (the bundled crowd files) on ten dialogues, and a model's on what --limit adds.
demo: install
	$(BIN)/remint prosocial \
		--seeds socialchemistry=$(SAMPLES)/social-chem-101.sample.tsv \
			sbic='$(SAMPLES)/SBIC.v2.sample.*.csv' ethics='$(SAMPLES)/cm_*.sample.csv' \
		--responses '$(SAMPLES)/crowd/responses-*.jsonl' \
		--annotations '$(SAMPLES)/crowd/annotations-*.jsonl' \
		--crowd llm --limit 12 --partitions 2 --output $(OUTPUT)

test: install
	@$(BIN)/python -m pytest

check: install
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

benchmark: install
	@$(BIN)/python benchmarks/calls.py
	@$(BIN)/python benchmarks/assemble.py

clean:
	rm -rf $(VENV) $(OUTPUT)
