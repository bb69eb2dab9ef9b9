"""Kernels that op packages provide for a backend: entry points `BACKEND:PACKAGE`."""

from __future__ import annotations

from collections.abc import Iterable

from dovetail import plugins
from dovetail.ops import OpRegistry
from dovetail.plugins.ops import is_replaced
from dovetail.runtime.plan.kernels import KernelRegistry

GROUP = "dovetail.kernels"


def with_package_kernels(
    own: KernelRegistry, packages: Iterable[str], ops: OpRegistry
) -> KernelRegistry:
    """Return a backend's own kernels and those that op packages provide for it.

    Broken kernels are left out with a warning: the ops run without them. So are those for an
    installed package that another one replaces: they were written for other definitions.

    Args:
        own: The backend's kernels.
        packages: Names of the packages that a graph uses; kernels of others are not loaded.
        ops: The ops; kernels for unknown ops are errors.

    Raises:
        UnsupportedOpError: A kernel is for an unknown op.
    """
    found = own
    installed = plugins.names(GROUP)
    for package in sorted(set(packages)):
        name = f"{own.backend}:{package}"
        if name in installed and not is_replaced(package, ops):
            loaded = plugins.load_usable(GROUP, name)
            if isinstance(loaded, KernelRegistry):
                loaded.check(ops)
                found = found.joined(loaded)
    return found
