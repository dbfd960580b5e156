# Every target runs from a bare clone with python3 and make: the first one builds .venv from the hashed lock.
PYTHON ?= python3
# Most tests wait for processes: a third worker keeps two cores busy.
WORKERS ?= 3
ARGS ?=

VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
TYPED := $(wildcard src bench tools)
FORMATTED := $(wildcard src bench tools tests)

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test quick check fmt lock bench chaos clean docs dashboard screenshots

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

run: $(INSTALLED) ## Run the demo with a live view (ARGS="--seconds 5" bounds it)
	@$(BIN)/python tools/build_dashboard.py --if-possible
	$(BIN)/taskforge up $(ARGS)

dashboard: $(INSTALLED) ## Build the dashboard into the package, if its sources have changed (needs Node 20)
	$(BIN)/python tools/build_dashboard.py

screenshots: dashboard ## Take pictures of every page from a real run of the demo
	$(BIN)/python tools/debian_packages.py
	$(BIN)/python -m tests.e2e.screenshots

test: check ## Run the checks, then every test (ARGS="-k name" narrows)
	$(BIN)/python tools/debian_packages.py
	$(BIN)/python tools/build_dashboard.py
	$(BIN)/python tools/build_dashboard.py --test
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

quick: check ## Run the checks, the unit tests and those of the SQLite engine, in under two minutes
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not long and not rotates" \
		-k "not postgres and not machine and not touches_only and not backlog and not walled and not depth" $(ARGS) tests/unit tests/operations tests/engine tests/engine_sqlite

check: $(INSTALLED) ## Check format, lint, types, layers, sizes and the files at the root
	$(BIN)/ruff format --check $(FORMATTED)
	$(BIN)/ruff check $(FORMATTED)
	$(BIN)/mypy $(TYPED)
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/sizes.py
	$(BIN)/python tools/root_files.py
	$(BIN)/python tools/check_documents.py
	$(BIN)/python tools/settings_reference.py --check
	$(BIN)/python tools/openapi.py --check
	$(BIN)/python tools/state_diagram.py --check

fmt: $(INSTALLED) ## Format the code and fix what ruff can fix
	$(BIN)/ruff check --fix-only $(FORMATTED)
	$(BIN)/ruff format $(FORMATTED)

docs: $(INSTALLED) ## Write the generated reference pages
	$(BIN)/python tools/settings_reference.py
	$(BIN)/python tools/openapi.py
	$(BIN)/python tools/state_diagram.py

lock: $(INSTALLED) ## Resolve pyproject.toml anew into requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --upgrade --no-strip-extras --generate-hashes --all-extras --group dev \
		--no-annotate --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
		--output-file requirements.lock pyproject.toml
	@! grep -nE '://|--(index-url|extra-index-url|find-links)' requirements.lock || \
		{ echo 'requirements.lock names a package host' >&2; exit 1; }

bench: $(INSTALLED) ## Measure pool and engines beside their floors, and all of it beside peers (ARGS=--quick for the short form)
	$(BIN)/python -m bench.pool $(filter --quick,$(ARGS)); pool=$$?; $(BIN)/python -m bench.engine $(ARGS); engine=$$?; \
		$(BIN)/python -m bench.api $(filter --quick,$(ARGS)); api=$$?; \
		$(BIN)/python -m bench.growth $(filter --quick,$(ARGS)); growth=$$?; \
		$(BIN)/python -m bench.drain $(filter --quick,$(ARGS)) && exit $$((pool | engine | api | growth))

chaos: $(INSTALLED) ## Run the long forms of the reliability tests
	$(BIN)/python -m pytest -m long --timeout 0 $(ARGS)

clean: ## Remove the virtual environment, caches and build output
	rm -rf .venv .venv-* build dist dashboard/node_modules src/taskforge/api/dashboard/built .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .taskforge
	find src tests bench tools -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# The project itself goes in without dependencies and without build isolation, so that nothing unhashed is fetched.
$(INSTALLED): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'TaskForge needs Python 3.11 or newer: name one with make PYTHON=python3.13' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo '$(PYTHON) cannot make a virtual environment here.' \
		'On Debian and Ubuntu: apt install $(notdir $(PYTHON))-venv; or name another with make PYTHON=…' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --quiet --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --quiet --no-deps --no-build-isolation --editable .
	@touch $@
