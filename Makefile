PYTHON ?= python3
BIN := .venv/bin
SOURCE ?= seeds/services.jsonl
OVERLAY ?=
TRANSACTIONS ?= $(if $(filter seeds/services.jsonl,$(SOURCE)),seeds/transactions.jsonl)
INSTALLED := .venv/installed
SERVE = $(BIN)/python -m service $(if $(PORT),--port $(PORT))

.PHONY: run test soak index serve check bench screenshots clean

run: $(INSTALLED)
	@$(BIN)/python -m indexer build seeds/services.jsonl --transactions seeds/transactions.jsonl
	@$(SERVE)

# One process more than there are cores, as tests also wait for what they started; and in memory where
# there is room for 6 GB, as they publish hundreds of snapshots, each with its fsyncs.
ROOM := $(shell df -k /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 6000000 {print "/dev/shm"}')

test: $(INSTALLED)
	@$(if $(ROOM),TMPDIR=$(ROOM)) $(BIN)/pytest --numprocesses $$(($$($(BIN)/python -c 'import os; print(os.cpu_count())') + 1)) --dist loadfile --no-loadscope-reorder

soak: $(INSTALLED)
	@RATECARD_SOAK=1 $(BIN)/pytest -m soak

index: $(INSTALLED)
	@$(BIN)/python -m indexer build $(SOURCE) $(if $(TRANSACTIONS),--transactions $(TRANSACTIONS)) $(if $(OVERLAY),--overlay $(OVERLAY))

serve: $(INSTALLED)
	@$(SERVE)

check: $(INSTALLED)
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/mypy --no-error-summary

bench: .venv/installed-bench
	@$(BIN)/python -m tests.benchmarks

.venv/installed-bench: $(INSTALLED)
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[bench]"
	@touch $@

# The pictures of the README.
screenshots: $(INSTALLED)
	@$(BIN)/python -m tests.screenshots

clean:
	@rm -rf .venv artifacts build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Ratecard needs Python 3.11 or newer; choose one with PYTHON=")'
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[indexer,dev]'
	@touch $@
