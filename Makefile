# Works with nothing but python3 (3.10 to 3.13), its venv module and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
OUTPUT ?= demo
SEEDS := pipelines/prosocial/samples
SOURCES := pipelines/metricinstruct/samples

# What the tests on clusters need beyond Python, built or fetched once.
CLUSTER := .cluster
PRISM := github.com/apache/beam/sdks/v2/go/cmd/prism@v2.77.0
GS_SERVER := gcp-storage-emulator==2026.7.19
S3_SERVER := github.com/versity/versitygw/cmd/versitygw@v1.8.0

.PHONY: help install demo test test-cluster check benchmark flink-up flink-down clean

help:
	@echo "make demo       install, fetch the embedded model, publish two small datasets, say where"
	@echo "make test       install, run all tests but those on clusters"
	@echo "make test-cluster  install, run the tests on Flink, Prism and object stores (needs Java 17,"
	@echo "                   Maven and Go on the machine)"
	@echo "make flink-up, make flink-down  a Flink cluster on this machine, for --config"
	@echo "                   runner_configs/flink.yaml (needs Java 17 and Maven)"
	@echo "make check      install, run the linters and the type checker"
	@echo "make benchmark  install, run the benchmarks"
	@echo "make clean      remove the virtual environment, the demo's output, and what the tests on"
	@echo "                   clusters built"

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

$(VENV)/.installed-cluster: $(INSTALLED)
	@echo "== installing what reaches object stores and Dataflow"
	@if [ -x $(BIN)/uv ]; then \
		VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --compile-bytecode --editable '.[embedded,dev,gcp,s3,kubernetes]'; \
	else \
		$(BIN)/python -m pip install --disable-pip-version-check --editable '.[embedded,dev,gcp,s3,kubernetes]'; \
	fi
	@touch $@

$(CLUSTER)/bin/prism $(CLUSTER)/bin/versitygw:
	@command -v go >/dev/null || { echo "Prism and the S3 server are built by Go, and there is no go" \
		"on PATH; install it (https://go.dev/dl) and try again" >&2; exit 1; }
	@echo "== building $(@F) (one to two minutes, once)"
	@GOBIN=$(CURDIR)/$(CLUSTER)/bin go install \
		$(if $(findstring prism,$@),$(PRISM),$(S3_SERVER))

# In an environment of its own: what it stands on is nothing that remint needs.
$(CLUSTER)/gs/bin/gcp-storage-emulator:
	@echo "== installing a server of Google's storage API"
	@$(PYTHON) -m venv $(CLUSTER)/gs
	@$(CLUSTER)/gs/bin/python -m pip install --quiet --disable-pip-version-check $(GS_SERVER)

test-cluster: $(VENV)/.installed-cluster $(CLUSTER)/bin/prism $(CLUSTER)/bin/versitygw \
		$(CLUSTER)/gs/bin/gcp-storage-emulator
	@$(BIN)/python -m runner_configs.flink fetch
	@$(BIN)/python -m pytest -m "" tests/cluster tests/runner_configs

flink-up: install
	@$(BIN)/python -m runner_configs.flink up

flink-down: install
	@$(BIN)/python -m runner_configs.flink down

check: install
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

benchmark: install
	@$(BIN)/python benchmarks/calls.py
	@$(BIN)/python benchmarks/assemble.py --dataset prosocial
	@$(BIN)/python benchmarks/assemble.py --dataset metricinstruct

clean:
	rm -rf $(VENV) $(OUTPUT) $(CLUSTER)
