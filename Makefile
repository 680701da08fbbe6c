# Two commands for a fresh machine: `make demo` and `make test`. Each builds .venv on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCHMARKS := draw step training prediction growth memory

.PHONY: help demo test lint types unit bench reproduce results clean

help:  ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

demo: $(READY)  ## train a Bayesian convolutional net on handwritten digits (about a minute)
	$(BIN)/python examples/digits.py

test: lint types unit  ## lint, type check, tests

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

unit: $(READY)
	$(BIN)/pytest

bench: $(READY)  ## what being Bayesian costs beside the plain network and other libraries, on this machine's device
	-$(BIN)/python -m benchmarks.peers.install  # without a network the tables say that the peers are missing
	$(BIN)/python -m benchmarks.law
	$(foreach name,$(BENCHMARKS),$(BIN)/python -m benchmarks.$(name) $(if $(filter step training,$(name)),--compiled) &&) $(BIN)/python -m benchmarks.performance

reproduce: $(READY)  ## every experiment of the paper, three seeds each: minutes on a GPU, days without
	$(BIN)/python -m reproduction reproduce all
	$(BIN)/python -m reproduction results

results: $(READY)  ## docs/results.md, its pictures and README's table from the files in results/
	$(BIN)/python -m reproduction results

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tribayes needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(READY)

clean:  ## remove the environment and caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache build
