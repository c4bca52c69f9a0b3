# Works with nothing but python3 (3.10 to 3.13), its venv module and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
OUTPUT ?= demo
SEEDS := pipelines/prosocial/samples
SOURCES := pipelines/metricinstruct/samples

.PHONY: help install demo test check benchmark clean

help:
	@echo "make demo       install, fetch the embedded model, publish two small datasets, say where"
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

# ProsocialDialog: people's work (the bundled crowd files) on ten dialogues, a model's on two more.
# MetricInstruct: the model's analyses of eight outputs and references.
# Both are then checked: hashes, suites, and that datasets loads every configuration.
demo: install
	$(BIN)/remint prosocial \
		--seeds socialchemistry=$(SEEDS)/social-chem-101.sample.tsv \
			sbic='$(SEEDS)/SBIC.v2.sample.*.csv' ethics='$(SEEDS)/cm_*.sample.csv' \
		--responses '$(SEEDS)/crowd/responses-*.jsonl' \
		--annotations '$(SEEDS)/crowd/annotations-*.jsonl' \
		--crowd llm --limit 12 --partitions 2 --output $(OUTPUT)
	$(BIN)/remint metricinstruct \
		--sources wmt_mqm=$(SOURCES)/mqm_sample_ende.tsv \
			gsm8k=$(SOURCES)/example_model_solutions.jsonl \
			mixinstruct=$(SOURCES)/mixinstruct_sample_prepared.jsonl \
		--synthetic dart=$(SOURCES)/dart-sample.json dolly=$(SOURCES)/dolly-sample.jsonl \
		--limit 8 --partitions 2 --output $(OUTPUT)
	$(BIN)/remint validate $(OUTPUT)/*/v*

test: install
	@$(BIN)/python -m pytest

check: install
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

benchmark: install
	@$(BIN)/python benchmarks/calls.py
	@$(BIN)/python benchmarks/assemble.py --dataset prosocial
	@$(BIN)/python benchmarks/assemble.py --dataset metricinstruct

clean:
	rm -rf $(VENV) $(OUTPUT)
