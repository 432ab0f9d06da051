# Two commands are enough: `make reproduce` and `make test`. Both set up .venv by themselves.
PROFILE ?= smoke
STUDY ?= $(PROFILE)
PYTHON ?= python3
CORES ?= $(shell getconf _NPROCESSORS_ONLN)
VENV := .venv
BIN := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
export TOKENIZERS_PARALLELISM := false
export STUDY
NBVAL := --nbval-lax --nbval-cell-timeout=900 -p no:cacheprovider
KERNELS := python -m companion.publication.forked_runs with
export PYTHONWARNINGS ?= ignore

.DEFAULT_GOAL := help
.PHONY: help install reproduce test coverage nightly figures publish notebooks lint format lock lab clean

help:  ## list the commands
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

install: $(VENV)/installed  ## make .venv from requirements.lock

$(VENV)/installed: requirements.lock pyproject.toml
	@echo "==> setting up $(VENV) from requirements.lock (a few minutes, once)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "saobp needs Python 3.11 or newer, this is " + sys.version.split()[0] + ": make PYTHON=python3.11 install")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

reproduce: install  ## run every notebook under STUDY (smoke), then open build/STUDY/index.html
	@saobp reproduce --study "$$STUDY" --cores $(CORES)

test: install  ## unit, property and end-to-end tests, and under nbval notebooks 01, 03, 09 and 13
	@OMP_NUM_THREADS=1 $(KERNELS) python -m pytest tests notebooks/01* notebooks/03* notebooks/09* notebooks/13* \
		-n $(CORES) --dist loadfile --no-loadscope-reorder $(NBVAL)

coverage: install  ## the tests again, and which lines of saobp none of them runs (half as long again)
	@python -m pytest -n $(CORES) --dist loadfile --no-loadscope-reorder --cov=saobp --cov-report=term:skip-covered

nightly: install  ## the slow tests, the thousands of generated cases, and every notebook under nbval
	@python -m pytest -m 'slow or nightly'
	@OMP_NUM_THREADS=1 $(KERNELS) python -m pytest notebooks $(NBVAL)

figures: install  ## rebuild figures/ and the texts (README, RESULTS, …) from the tracked records
	@saobp figures

publish: install  ## copy a finished study's records to data/results/ and rebuild figures/
	@saobp publish --study "$$STUDY"

notebooks: install  ## put the outputs of the finished smoke run into notebooks/
	@saobp notebooks

lint: install  ## ruff, on code and notebooks
	@ruff check .

format: install  ## let ruff mend what it can
	@ruff check --fix . && ruff format .

lab: install  ## open the notebooks in JupyterLab (its options: LAB="--port 9000 --no-browser")
	@jupyter lab notebooks $(if $(filter 0,$(shell id -u)),--allow-root) $(LAB)

lock: $(VENV)/installed  ## refresh requirements.lock and environment.yml
	@python -m pip install --quiet --disable-pip-version-check uv
	@python tools/lock.py

clean:  ## remove build/ (the environment stays)
	@rm -rf build
