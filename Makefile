PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.complete

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint types ui bench clean

help:  ## Show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

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

clean:  ## Remove the environment and everything that was made
	rm -rf $(VENV) artifacts build dist *.egg-info
