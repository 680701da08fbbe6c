# Two commands for a fresh machine: `make demo` and `make test`. Each builds .venv on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TORCH ?= 2.11.0
LOWEST := $(addprefix tests/,posterior nn inference prediction tables sklearn integrations plots report runs own serve)
BENCHMARKS := draw step large training prediction growth distributed memory

.PHONY: help demo test lint types unit docs notebooks faults statistics large lowest audit bench reproduce results release clean

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

unit: $(READY)  # tests of one file stay together: they share what is slow to make
	$(BIN)/pytest -n auto --maxprocesses=4 --dist loadfile

docs: $(READY)  ## the manual, at http://127.0.0.1:8000 (and built anew when a page is saved)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --strict

notebooks: $(READY)  ## examples/notebooks/ from examples/*.py
	$(BIN)/python -m pages.notebooks

faults: $(READY)  ## make everything go wrong that may, count what held, write docs/reliability.md
	-$(BIN)/python -m tests.faults
	$(BIN)/python -m tests.faults.page

statistics: $(READY)  ## every source of random numbers and of intervals put to the test, stored
	$(BIN)/python -m tests.statistics
	$(BIN)/python -m tests.faults.page

large: $(READY)  ## a million steps, ten million rows and, with 16 GB to spare, a billion weights, stored: about two hours
	$(BIN)/python -m tests.large
	-$(BIN)/python -m tests.large draw
	$(BIN)/python -m tests.faults.page

lowest:  ## the tests of the library and its extras with the lowest versions of pyproject.toml; TORCH=2.13.0 chooses torch
	$(PYTHON) -m venv build/lowest
	build/lowest/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-lowest.txt torch==$(TORCH) \
		-e '.[lightning,onnx,plot,serve,sklearn,table,tensorboard,transformers,wandb]' torchmetrics \
		httpx2 pytest pytest-timeout pytest-xdist
	build/lowest/bin/pytest -n auto --maxprocesses=4 --dist loadfile -W ignore::DeprecationWarning $(LOWEST)

audit:  ## known weaknesses of everything in constraints.txt; says so where the advisory service is not reached
	$(PYTHON) -m venv build/audit
	build/audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit
	$(PYTHON) -m tests.audit build/audit/bin/pip-audit

bench: $(READY)  ## what being Bayesian costs beside the plain network and other libraries, on this machine's device
	-$(BIN)/python -m benchmarks.peers.install  # without a network the tables say that the peers are missing
	$(BIN)/python -m benchmarks.law
	$(foreach name,$(BENCHMARKS),$(BIN)/python -m benchmarks.$(name) $(if $(filter step training,$(name)),--compiled) &&) $(BIN)/python -m benchmarks.performance

reproduce: $(READY)  ## every experiment of the paper, three seeds each: minutes on a GPU, days without
	$(BIN)/python -m reproduction reproduce all
	$(BIN)/python -m reproduction results

results: $(READY)  ## docs/results.md, its pictures and README's part from the files in results/
	$(BIN)/python -m reproduction results

release: $(READY)  ## build sdist and wheel, check their metadata, install the wheel in a bare environment and run it
	rm -rf dist build/release
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m twine check --strict dist/*
	$(PYTHON) -m venv build/release
	build/release/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	cd build/release && bin/tribayes --version && bin/python -c 'import tribayes; print(tribayes.__file__)'
	cd build/release && bin/tribayes experiments
	cd build/release && bin/python -P -W error ../../tests/bare.py

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tribayes needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(READY)

clean:  ## remove the environment and caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache build dist
