"""Which tests of the backend `gpu` run: none without a device, few in `make test`.

A driver for processors compiles for seconds what a test needs: `make test-gpu` sets
DOVETAIL_GPU_TESTS=all, `make test` runs fewer examples, and not the tests with the most programs.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from dovetail.errors import PluginError

ALL = os.environ.get("DOVETAIL_GPU_TESTS") == "all"
_FEW = 3
if not ALL:
    # POCL's own setting, which commands inherit: without optimization it takes half the time
    os.environ.setdefault("POCL_EXTRA_BUILD_FLAGS", "-cl-opt-disable")
many_programs = pytest.mark.skipif(
    not ALL, reason="a driver compiles its programs for long: make test-gpu runs it"
)


def examples(count: int) -> settings:
    """Return the settings of a test with this number of examples; few of them in `make test`."""
    return settings(max_examples=count if ALL else _FEW, deadline=None, derandomize=not ALL)


def require_opencl() -> str:
    """Return the name of the first device; skip the test, with the reason, if there is none."""
    try:
        from dovetail_gpu.driver import choose_device

        return str(choose_device(None))
    except PluginError as error:
        pytest.skip(f"{error.message}; {error.hint}")
