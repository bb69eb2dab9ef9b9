"""Kernels that op packages provide for a backend: entry points `BACKEND:PACKAGE`."""

from __future__ import annotations

from collections.abc import Iterable

from dovetail import plugins
from dovetail.errors import PluginError
from dovetail.ops import OpRegistry
from dovetail.runtime.plan.kernels import KernelRegistry

GROUP = "dovetail.kernels"


def with_package_kernels(
    own: KernelRegistry, packages: Iterable[str], ops: OpRegistry
) -> KernelRegistry:
    """Return a backend's own kernels and those that op packages provide for it.

    Args:
        own: The backend's kernels.
        packages: Names of the packages that a graph uses; kernels of others are not loaded.
        ops: The ops; kernels for unknown ops are errors.

    Raises:
        PluginError: An entry point cannot be loaded, or does not load kernels of its package for
            this backend.
        UnsupportedOpError: A kernel is for an unknown op.
    """
    found = own
    installed = plugins.names(GROUP)
    for package in sorted(set(packages)):
        name = f"{own.backend}:{package}"
        if name in installed:
            provided = _checked(name, package, own.backend, plugins.load(GROUP, name))
            provided.check(ops)
            found = found.joined(provided)
    return found


def _checked(name: str, package: str, backend: str, loaded: object) -> KernelRegistry:
    where = f"{GROUP} '{name}'"
    if not isinstance(loaded, KernelRegistry):
        kind = type(loaded).__name__
        raise PluginError(f"expected a KernelRegistry, got {kind}", where=where)
    if loaded.backend != backend:
        raise PluginError(f"the kernels are for the backend '{loaded.backend}'", where=where)
    foreign = sorted({other for other, _ in loaded if other != package})
    if foreign:
        raise PluginError(f"kernels for other packages: {', '.join(foreign)}", where=where)
    return loaded
