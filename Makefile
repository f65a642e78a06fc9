# make eval       environment, install, then the embedded default: simulated model on the sample questions
# make test       lint, types, imports, tests (4 minutes on two cores)
# make test-slow  kill loops, browsers, servers (14 minutes)
# make browser    a browser for the agents at http://127.0.0.1:3000/mcp (PORT=3001: another port)
# make docs       the documentation as a site in site/; a dead link fails
# make bench      speed and memory compared with other harnesses (about 20 minutes; BENCH=--quick: 3, BENCH=--full: kills as well, BENCH=--real MODEL=FILE.gguf: a real model; see docs/explanation/performance.md)

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
INSPECT_PYTHON ?= $(BIN)/python
BENCH ?=
MODEL ?=
PORT ?= 3000
UI_PORT ?= 5000
VERSION := -c 'import sys; print(sys.version_info[:2])'

.PHONY: setup eval test unit test-slow bench browser docs lint lock ui clean

# PYTHON=... asks for an environment of that version: one of another version is made again.
ifneq ($(origin PYTHON),file)
ifneq ($(shell $(BIN)/python $(VERSION) 2>/dev/null),$(shell $(PYTHON) $(VERSION) 2>/dev/null))
$(shell rm -f $(STAMP))
endif
endif

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
		|| { echo "error: $$($(PYTHON) --version) found; Python 3.11, 3.12 or 3.13 is needed: make setup PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' \
		|| { echo "error: this Python cannot make environments; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@[ ! -x $(BIN)/python ] || [ "$$($(BIN)/python $(VERSION))" = "$$($(PYTHON) $(VERSION))" ] || rm -rf .venv
	$(PYTHON) -m venv .venv
	@echo "installing the locked packages: about 250, 2 GB on the disk"
	$(BIN)/python scripts/install.py requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q -x benchmarks/sample/ eval mas optimize
	@touch $(STAMP)

# Exit code 2 says that some questions failed by error: the simulated model breaks its output format now and then, by design.
eval: setup
	$(BIN)/python eval/run.py experiment=offline || [ $$? -eq 2 ]

# Linters and tests at the same time: mypy uses one core, and tests sometimes wait.
test: setup
	$(MAKE) --no-print-directory --jobs=2 lint unit

unit: setup
	$(BIN)/pytest -m "not slow" -n 2 --dist loadfile

test-slow: setup
	$(BIN)/pytest -m slow -n 4 --dist loadfile --no-loadscope-reorder

# Inspect AI needs a newer openai than the lock has, so it may live in an environment of its own.
bench: setup
	$(BIN)/python tests/bench/everything.py --inspect-python $(INSPECT_PYTHON) $(BENCH) $(MODEL)

browser: setup
	$(BIN)/python deploy/browser/start.py --port $(PORT)

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

ui: setup
	MLFLOW_DISABLE_TELEMETRY=true MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false LITELLM_LOCAL_MODEL_COST_MAP=True $(BIN)/mlflow ui \
		--backend-store-uri sqlite:///$(CURDIR)/outputs/mlflow.db --host 127.0.0.1 --port $(UI_PORT) --workers 1

# Versions and hashes for Python 3.11 to 3.13, without any address.
lock:
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet uv
	.venv-lock/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --extra dev --output-file requirements.lock pyproject.toml
	.venv-lock/bin/uv pip compile --universal --python-version 3.12 --generate-hashes --no-emit-index-url \
		--no-header --no-annotate --constraint requirements.lock --output-file deploy/requirements.lock deploy/requirements.in
	rm -rf .venv-lock

clean:
	rm -rf .venv .venv-lock .coverage site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
