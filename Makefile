# Two commands do all set-up on a fresh machine: `make demo` and `make test`.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
COVERED := core store engine metrics trends boards

.PHONY: demo test test-slow mutants lint docs sheets bench clean

demo: $(VENV)/.installed
	$(BIN)/holdfast demo

test: $(VENV)/.installed-test
	rm -f .coverage .coverage.*
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not slow" --cov=holdfast --cov-report=
	@for package in $(COVERED); do \
		echo "line coverage of $$package:"; \
		$(BIN)/python -m coverage report --include="src/holdfast/$$package/*" --fail-under=90 --format=total || exit 1; \
	done

test-slow: $(VENV)/.installed-test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadscope -m slow

mutants: $(VENV)/.installed-test
	OMP_NUM_THREADS=1 $(BIN)/python scripts/mutate.py

lint: $(VENV)/.installed-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.installed
	$(BIN)/python scripts/make_docs.py

sheets: $(VENV)/.installed
	$(BIN)/python scripts/make_docs.py --sheets

bench: $(VENV)/.installed
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/overhead.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/trends.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/agreement.py

clean:
	rm -rf $(VENV) .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis

# torch goes first: what depends on it then finds it there and brings no other build
$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) -e .
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(PIP) -e ".[test]"
	touch $@

$(VENV)/.installed-lint: $(VENV)/.installed
	$(PIP) -e ".[lint]"
	touch $@
