# Two commands do all the set-up on a fresh machine with Python 3.11+ and make:
#   make demo    trains every arm of the embedded experiment and writes the report
#   make test    passes the tests
PYTHON ?= python3
VENV ?= .venv
OUT ?= demo
BIN := $(VENV)/bin

# Small tensors in a tight loop: keep freed memory instead of giving it back to the system. Measured on the demo; not for servers.
DEMO_ENV := MALLOC_MMAP_THRESHOLD_=1000000000 MALLOC_TRIM_THRESHOLD_=2000000000 MALLOC_TOP_PAD_=100000000 TOKENIZERS_PARALLELISM=false

.PHONY: demo test lint schemas clean

demo: $(VENV)/.installed
	$(DEMO_ENV) $(BIN)/mentor-audit demo --out $(OUT)

test: $(VENV)/.installed
	OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false $(BIN)/python -m pytest -n 2 --dist loadfile

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

schemas: $(VENV)/.installed
	$(BIN)/mentor-audit schema --write schemas

$(VENV)/.installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Expected Python 3.11 or newer, found %d.%d. Name another one: make PYTHON=python3.11" % sys.version_info[:2])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-deps -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

clean:
	rm -rf $(VENV) demo
