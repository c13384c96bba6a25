# Two commands do everything on a fresh machine: `make check` and `make test`. Both set up first.

PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready

.PHONY: setup check test browser site lint types audit bench clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all,dev]'
	touch $(READY)

# Released packages are checked as they are: what is known of them is told, and only what is new fails (exit 1).
check: setup
	$(VENV)/bin/attnspec check torch_sdpa transformers_eager --profile quick --fail-on new

test: setup
	$(VENV)/bin/python -m pytest -n 2 --dist worksteal

# Pages are looked at in the Chromium of the system.
browser: setup
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[browser]'
	$(VENV)/bin/python -m pytest tests/end_to_end/test_*browser.py

# The site of the project, of the results that are committed.
site: setup
	$(VENV)/bin/attnspec site build/site results

lint: setup
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/attnspec lint

types: setup
	.ci/types $(VENV)/bin/python

audit: setup
	$(VENV)/bin/attnspec audit

bench: setup
	$(VENV)/bin/python benchmarks/speed.py
	$(VENV)/bin/python benchmarks/audit.py
	$(VENV)/bin/python benchmarks/diagnosis.py

clean:
	rm -rf $(VENV) build dist *.egg-info attnspec-report .pytest_cache .ruff_cache
