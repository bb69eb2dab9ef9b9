"""Whether there is an OpenCL device, without which tests of the backend `gpu` are skipped."""

from __future__ import annotations

import pytest

from dovetail.errors import PluginError


def require_opencl() -> str:
    """Return the name of the first device; skip the test, with the reason, if there is none."""
    try:
        from dovetail_gpu.driver import choose_device

        return str(choose_device(None))
    except PluginError as error:
        pytest.skip(f"{error.message}; {error.hint}")
