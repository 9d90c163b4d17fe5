# Two commands do all set-up on a fresh machine: `make demo` and `make test`.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
COVERED := core store engine metrics trends boards

.PHONY: demo test test-slow mutants lint docs docs-site wheel sheets findings bench clean

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
	OMP_NUM_THREADS=1 $(BIN)/python scripts/mutate.py --by-hand
	$(BIN)/python scripts/mutate.py --write

lint: $(VENV)/.installed-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.installed
	$(BIN)/python scripts/make_docs.py

docs-site: $(VENV)/.installed-docs
	rm -rf docs/_build
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html
	$(BIN)/python scripts/check_site.py docs/_build/html

# builds both archives, then installs the wheel beside nothing but its dependencies and uses it
wheel: $(VENV)/.installed
	$(PIP) build
	rm -rf dist $(VENV)-wheel
	$(BIN)/python -m build --outdir dist .
	$(PYTHON) -m venv $(VENV)-wheel
	$(VENV)-wheel/bin/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(VENV)-wheel/bin/pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	cd dist && HOLDFAST_STORE=$$(mktemp -d) ../$(VENV)-wheel/bin/holdfast evaluate fashion-standard \
		--scenario "fashion-mnist-2k{,+pgd-linf:radius=8/255}" --samples 20
	rm -rf $(VENV)-wheel

sheets: $(VENV)/.installed
	$(BIN)/python scripts/make_docs.py --sheets

# rows of the zoo: scripts/findings_rows.py --store $(STORE)
STORE ?= findings-store
findings: $(VENV)/.installed
	$(BIN)/python scripts/make_findings.py --store $(STORE)

bench: $(VENV)/.installed
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/overhead.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/trends.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/agreement.py

clean:
	rm -rf $(VENV) $(VENV)-wheel docs/_build docs/reference docs/made .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis

# torch goes first: what depends on it then finds it there and brings no other build
$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) -e .
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(PIP) -e ".[test]"
	touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(PIP) -e ".[docs]"
	touch $@

$(VENV)/.installed-lint: $(VENV)/.installed
	$(PIP) -e ".[lint]"
	touch $@
