# Everything a newcomer or a developer needs, on a machine with Python 3.11+, make and a package index.
# `make` alone lists the targets. Another interpreter: make PYTHON=python3.13 demo

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

# What is installed is exactly what constraints.txt pins, the build tools included: the two variables are how pip
# is told, before and from version 25.3 on.
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt

# Processes that tests start read compiled sources, also where the environment forbids to write them.
export PYTHONDONTWRITEBYTECODE :=

DEMO := wenmai compare --systems word2vec-sgns,fasttext,glove,ppmi-svd builtin:pydocs \
  --analogy builtin:pydocs-analogies --set epochs=20 --set buckets=100000 --out runs/demo
REPORT := runs/demo/report.html

CORE := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
BENCH := $(VENV)/.installed-bench

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo setup check format test parity bench clean

help: ## List the targets
	@awk -F ' ## ' '/^[a-z]+:.* ## / { sub(/:.*/, "", $$1); printf "make %-8s %s\n", $$1, $$2 }' Makefile

demo: $(CORE) ## Train four systems on the English that ships with Python, and compare them in one report
	@rm -rf runs/demo
	$(BIN)/$(DEMO)
	@echo "The report is $(CURDIR)/$(REPORT)"

setup: $(DEV) ## Create .venv with the package, the development tools and the reference libraries

check: $(DEV) ## Format, lint, types, layers, spelling, file sizes and import times
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/python tests/habits/budgets.py

format: $(DEV) ## Rewrite the code the way `make check` wants it
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: $(DEV) ## Run all tests
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

parity: $(DEV) ## Run only the comparisons with reference libraries
	$(BIN)/python -m pytest -m parity

bench: $(BENCH) ## Measure speed and quality against the reference library; see benchmarks/
	$(BIN)/python -m benchmarks all

clean: ## Remove the environment, caches and the demo; the runs of your own stay
	rm -rf $(VENV) runs/demo dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find wenmai tests benchmarks -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "wenmai needs Python 3.11 or newer; '$(PYTHON) --version' says: $$($(PYTHON) --version 2>&1)" >&2; \
	  echo "Name another interpreter, for example: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(CORE): pyproject.toml constraints.txt | $(VENV)/.created
	@echo "Installing wenmai into $(VENV) (about 570 MB on disk)"
	$(PIP) install --editable .
	@touch $(CORE)

$(DEV): pyproject.toml constraints.txt | $(VENV)/.created
	$(PIP) install --editable '.[dev,neural,parity,ctranslate2,elmo,onnx,pinyin,plot,tensorboard,transport]'
	@$(PIP) install --editable '.[kenlm]' >/dev/null 2>&1 || \
	  echo "kenlm comes as source and could not be compiled here: comparisons with it are skipped"
	@touch $(CORE) $(DEV)

$(BENCH): pyproject.toml constraints.txt | $(VENV)/.created
	$(PIP) install --editable '.[bench,neural,kenlm]'
	@touch $(CORE) $(BENCH)
