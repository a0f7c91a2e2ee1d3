# Everything a fresh machine needs, by `make demo` and `make test`. Only cargo, a C compiler and Python (3.10 or later)
# must be there; the rest is installed (system packages where we may, Python packages into .venv).

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
DATA ?= bench-data
# Where `make demo WHEEL=…` installs the wheel.
WHEEL_VENV := .venvs/wheel
export VIRTUAL_ENV := $(abspath $(VENV))

.DEFAULT_GOAL := help
# A first build is faster, and half as large, without what later builds would reuse.
ifeq ($(wildcard target),)
export CARGO_INCREMENTAL := 0
endif

.PHONY: help setup setup-test build build-test demo test test-rust test-python test-leaks loom test-interop test-frameworks test-free-threaded lint wheel docs bench bench-formats bench-remote bench-decode bench-transforms bench-targets bench-peers parity fuzz fuzz-replay clean

help: ## What there is to make
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

setup: ## Compiler tools and the Python environment (small)
	@PYTHON=$(PYTHON) tools/setup.sh build

setup-test: ## The same, with what tests and benchmarks need (torch: 5 GB)
	@PYTHON=$(PYTHON) tools/setup.sh test

build: setup ## The Python package, optimised, into .venv
	$(BIN)/maturin develop --release --locked

# Not the optimised one: all but the binding itself is what the Rust tests have built or will build, and overflows are found.
build-test: setup-test ## The Python package as the tests use it: kernels optimised, checks on
	$(BIN)/maturin develop --locked --features shared-build

ifdef WHEEL
demo: ## Makes a small data set, packs it, loads it, shows throughput; with WHEEL=feedline-….whl nothing is built
	$(PYTHON) -m venv $(WHEEL_VENV)
	$(WHEEL_VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(WHEEL)
	$(WHEEL_VENV)/bin/feedline demo
else
demo: setup
	$(BIN)/maturin develop --profile quick --locked
	$(BIN)/feedline demo
endif

test: setup-test lint test-rust loom test-python test-leaks ## All tests
	@echo "all tests passed"

test-rust: setup ## Rust tests
	cargo test --workspace --exclude feedline-python --locked

loom: setup ## Model check of the batch protocol
	cd crates/feedline/loom && cargo test --release --locked

test-python: setup-test build-test ## Python tests and the examples in docstrings
	cargo build --locked --workspace --exclude feedline-python --bin feedline-test-servers
	$(BIN)/python -m pytest

test-leaks: setup-test ## 2,000 batches with early breaks under valgrind's leak checker
	tools/leaks.sh

test-interop: setup-test build ## With the real libraries: their files read here, ours read there, their orders (3 GB more)
	VENV=$(VENV) tools/interop/setup.sh
	$(BIN)/python -m pytest -c python/interop/pytest.ini python/interop

test-frameworks: setup-test build ## With Lightning, Hugging Face, JAX, Keras, Ray, Spark and Dask, each in an environment of its own (2.5 GB)
	VENV=$(VENV) tools/frameworks/setup.sh
	$(BIN)/python python/frameworks/run.py

test-free-threaded: setup ## On a Python without the interpreter lock: FREE_THREADED_PYTHON=python3.14t
	tools/free_threaded.sh

lint: setup-test build-test ## Formatting, clippy, ruff, types, stubs, layering
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	tools/check_features.sh
	$(BIN)/ruff format --check python tools benchmarks examples
	$(BIN)/ruff check python tools benchmarks examples
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest feedline._feedline
	$(BIN)/python tools/check_links.py
	$(BIN)/python tools/check_words.py
	$(BIN)/python tools/check_dependencies.py
	$(BIN)/python tools/options_table.py --check
	$(BIN)/python tools/reference_docs.py --check
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --workspace --exclude feedline-python

wheel: ## A wheel as it is released, into dist/, tried in empty environments; for another machine: TARGET=aarch64-unknown-linux-gnu; without the interpreter lock: INTERPRETER=python3.14t
	@PYTHON=$(PYTHON) tools/setup.sh wheel
	tools/wheel.sh "$(TARGET)" $(INTERPRETER)
	[ "$(CHECK)" = no ] || PYTHON=$(or $(INTERPRETER),$(PYTHON)) tools/check_wheel.sh "$$(ls -t dist/*.whl | head -1)"

docs: build ## The documentation site, into site/ (offline; also builds with MkDocs and Material)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r tools/requirements-docs.txt
	$(BIN)/python tools/reference_docs.py --write
	$(BIN)/zensical build
	$(BIN)/python tools/check_site.py site

bench: setup-test build ## Against torch DataLoader and memcpy: make bench DATA=folder-of-class-folders
	$(BIN)/python benchmarks/run.py $(DATA)

bench-formats: setup-test build ## Every format's own loader against feedline on the same files: make bench-formats DATA=folder
	VENV=$(VENV) tools/interop/setup.sh
	$(BIN)/python benchmarks/formats.py $(DATA)

bench-remote: setup-test build ## A bucket beside a plain downloader, other clients and the local disk: make bench-remote DATA=folder
	VENV=$(VENV) tools/interop/setup.sh s3clients
	$(BIN)/python benchmarks/remote.py $(DATA)

bench-decode: setup ## The decoder against libjpeg-turbo: make bench-decode DATA=folder
	cargo bench -p feedline-pixels --bench decode -- $(DATA)
	cargo bench -p feedline-pixels --bench recipes -- $(DATA)

parity: setup-test build ## Every transform beside torchvision's: make parity DATA=folder-of-photos
	$(BIN)/python benchmarks/transform_parity.py $(DATA)

bench-targets: setup-test build ## Segmentation, DINO and mixing beside torch's DataLoader and torchvision v2: make bench-targets DATA=folder
	$(BIN)/python benchmarks/targets.py $(DATA)

bench-transforms: setup-test build ## Every transform beside torchvision, OpenCV, albumentations and kornia-rs; recipes: make bench-transforms DATA=folder
	$(BIN)/python -m pip install -q opencv-python-headless albumentations==2.0.8 kornia-rs
	$(BIN)/python benchmarks/transforms.py $(DATA) --docs docs/benchmarks
	cargo bench -p feedline-pixels --bench ops

bench-peers: setup-test build ## Every loader that can be installed, in environments of their own: make bench-peers DATA=folder
	VENV=$(VENV) tools/peers/setup.sh
	$(BIN)/python -m pip install -q matplotlib
	$(BIN)/python benchmarks/peers.py $(DATA) --docs docs/benchmarks --readme README.md

fuzz: setup-test build ## Orders and resumes against a slow model, then every fuzz target for a bounded time
	FEEDLINE_MODEL_CASES=20000 FEEDLINE_MODEL_SEED=1000 $(BIN)/python -m pytest --timeout=3600 python/tests/test_model.py
	fuzz/run.sh

fuzz-replay: setup ## Seeds and former findings of every fuzz target once, under the address sanitizer
	fuzz/run.sh 0

clean: ## Removes what was built, not .venv
	cargo clean
