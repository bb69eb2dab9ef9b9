# Every target works on a new machine with python3 (3.11 or newer, with venv), pip and make: the first
# one creates .venv and installs the workspace into it.

# With this variable, every command that a test starts would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/workspace-ready
BENCH_READY := $(VENV)/bench-ready
# The vendor's simulator has an environment of its own: nothing else may depend on it.
VENDOR_VENV := .venv-vendor
VENDOR_PYTHON := $(VENDOR_VENV)/bin/python
# The viewer Netron, too.
NETRON_VENV := .venv-netron
NETRON_PYTHON := $(NETRON_VENV)/bin/python
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
STAGE = @$(BIN)/python tools/stage.py
# One worker for each core, and two on a single core: some tests wait. Each computes in one thread, or
# threads would outnumber the cores; workers that have finished take over tests of others.
WORKERS = $(shell $(PYTHON) -c 'import os; print(max(2, os.cpu_count() or 2))')
ONE_THREAD = env OMP_NUM_THREADS=1 $(BIN)/python
PYTEST = pytest -n $(WORKERS) --dist worksteal

# The dists: folders with a pyproject.toml. New entry points appear only after reinstalling, so
# the stamp depends on each of these files.
PROJECTS := $(sort $(wildcard core/pyproject.toml plugins/*/pyproject.toml plugins/*/*/pyproject.toml))
DISTS := $(patsubst %/pyproject.toml,%,$(PROJECTS))

.DELETE_ON_ERROR:
.PHONY: help install demo test test-avx2 test-gpu check lint types imports sizes tests wheels bench
.PHONY: bench-quantization vendor-test netron-test fuzz clean

help:
	@echo 'make demo    run the digits model in float, and quantized on an emulated HTP; then'
	@echo '             two lengths of a transformer in one context binary'
	@echo 'make test    everything: check, the tests, the wheels in clean environments'
	@echo 'make check   ruff, wording, mypy --strict, import contracts, file sizes'
	@echo 'make test-avx2   the tests as on a processor with AVX2 only; needs gcc and objdump'
	@echo 'make test-gpu   the GPU backend: the whole conformance kit, its tests, and networks beside'
	@echo '             the CPU; on the first OpenCL device, or on the one that DEVICE names'
	@echo 'make bench   measure against peers, side by side; bench-quantization: the quantizer'
	@echo 'make vendor-test   compare integer ops with the HTP simulator of onnxruntime-qnn'
	@echo 'make netron-test   open JSON, DLC and ONNX files of ours in Netron; needs Chromium (on Debian,'
	@echo '             apt-get install chromium), and installs Netron in .venv-netron'
	@echo 'make fuzz    read 20,000 mutated ONNX files, and as many contexts, traces, Saver programs'
	@echo '             and files of its converters: each must succeed or be rejected; FUZZ=--help'
	@echo '             lists more'
	@echo 'make clean   remove .venv and all caches'

install: $(READY)

$(READY): pyproject.toml $(PROJECTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is older than 3.11: run 'make PYTHON=python3.11' (or newer)" >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@$(PYTHON) tools/stage.py 'install build tools' \
	  $(PIP_INSTALL) 'hatchling>=1.27,<2' 'editables>=0.5,<1'
	@$(PYTHON) tools/stage.py 'install workspace' \
	  $(PIP_INSTALL) --no-build-isolation \
	  $(addprefix -e ./,$(DISTS)) -e '.[test,dev]'
	@touch $@

demo: $(READY)
	@$(BIN)/python examples/digits/demo.py
	@$(BIN)/python examples/contexts/demo.py

# The checks and the wheels side by side: mypy computes in one thread, pip waits for the disk. Some
# tests use what mypy has found.
test: $(READY)
	@$(MAKE) --no-print-directory -j 2 check wheels
	@$(MAKE) --no-print-directory tests

check: lint types imports sizes

lint: $(READY)
	$(STAGE) 'ruff check' $(BIN)/ruff check .
	$(STAGE) 'ruff format' $(BIN)/ruff format --check .
	$(STAGE) 'wording' $(BIN)/python tools/wording.py

types: $(READY)
	$(STAGE) 'mypy --strict' $(BIN)/mypy

imports: $(READY)
	$(STAGE) 'import contracts' $(BIN)/lint-imports --no-logo

sizes: $(READY)
	$(STAGE) 'file sizes' $(BIN)/python tools/sizes.py

tests: $(READY)
	$(STAGE) 'pytest' $(ONE_THREAD) -m $(PYTEST)

wheels: $(READY)
	$(STAGE) 'wheels' $(BIN)/python tools/smoke_wheels.py

# In a copy of .venv whose libraries see a processor with AVX2 only.
test-avx2: $(READY)
	$(STAGE) 'pytest with AVX2 only' $(ONE_THREAD) tools/avx2 $(PYTEST)

# Of these, `make test` runs the kit without the cases of ops, and all but the slow networks.
test-gpu: $(READY)
	$(STAGE) 'conformance of gpu' $(ONE_THREAD) -m pytest -q -W error -p dovetail.testing.plugin \
	  --pyargs dovetail.testing.suite --backend gpu --cases dovetail_opset.testing:CASES \
	  $(if $(DEVICE),--backend-options '{"device": "$(DEVICE)"}')
	$(STAGE) 'tests of gpu' env DOVETAIL_GPU_TESTS=all $(ONE_THREAD) -m $(PYTEST) plugins/gpu/tests \
	  tests/test_gpu_networks.py

bench: $(BENCH_READY)
	@$(BIN)/python benchmarks/startup.py
	@$(BIN)/python -m benchmarks

# Needs no peer but ONNX Runtime, which the tests have.
bench-quantization: $(READY)
	@$(BIN)/python -m benchmarks.quantization

# If the package cannot be installed, the comparison says so and its status is not 0. Set VENDOR for
# options: VENDOR='--networks digits,unet'.
vendor-test: $(READY)
	@test -x $(VENDOR_PYTHON) || $(PYTHON) -m venv --clear $(VENDOR_VENV)
	-$(STAGE) 'install the simulator' $(VENDOR_PYTHON) -m pip install --quiet \
	  --disable-pip-version-check 'onnxruntime-qnn==2.7.0' 'onnxruntime>=1.20,<2'
	@$(BIN)/python -m benchmarks.vendor --python $(VENDOR_PYTHON) $(VENDOR)

# Chromium comes from the system; if it is missing, the check says so and its status is not 0. Set
# NETRON for options: NETRON='--only digits'. The range is what the check was run with.
netron-test: $(READY)
	@test -x $(NETRON_PYTHON) || $(PYTHON) -m venv --clear $(NETRON_VENV)
	-$(STAGE) 'install Netron' $(NETRON_PYTHON) -m pip install --quiet \
	  --disable-pip-version-check 'netron>=9.0,<9.4'
	@$(BIN)/python tools/check_netron.py --python $(NETRON_PYTHON) $(NETRON)

# Set FUZZ='--seed 2' or FUZZ='--target dvt' to read those files alone.
fuzz: $(READY)
	@$(BIN)/python tools/fuzz_files.py --details $(FUZZ)
	@$(if $(FUZZ),,$(BIN)/python tools/fuzz_files.py --details --target context)
	@$(if $(FUZZ),,$(BIN)/python tools/fuzz_files.py --details --target trace)
	@$(if $(FUZZ),,$(BIN)/python tools/fuzz_files.py --details --target saver)
	@$(if $(FUZZ),,$(BIN)/python tools/fuzz_files.py --details --target qnn-json)
	@$(if $(FUZZ),,$(BIN)/python tools/fuzz_files.py --details --target qnn-cpp)
	@$(if $(FUZZ),,$(BIN)/python tools/fuzz_files.py --details --target dlc)

# The peers that only measurements need: nothing else may depend on them.
$(BENCH_READY): $(READY)
	@$(PYTHON) tools/stage.py 'install peers' $(PIP_INSTALL) --no-build-isolation -e '.[bench]'
	@touch $@

clean:
	rm -rf $(VENV) $(VENDOR_VENV) $(NETRON_VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache benchmarks/.cache
