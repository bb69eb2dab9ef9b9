"""Kernels that op packages bring for a backend: entry points `BACKEND:PACKAGE`."""

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
    """Return a backend's own kernels and those that op packages bring for it.

    Args:
        own: The backend's.
        packages: Names of the packages that a graph uses; no other's kernels are loaded.
        ops: Refuses kernels of ops that do not exist.

    Raises:
        PluginError: An entry point does not load, or loads something else than kernels of its
            package for this backend.
        UnsupportedOpError: A kernel is for an op that its package does not have.
    """
    found = own
    installed = plugins.names(GROUP)
    for package in sorted(set(packages)):
        name = f"{own.backend}:{package}"
        if name in installed:
            brought = _checked(name, package, own.backend, plugins.load(GROUP, name))
            brought.check(ops)
            found = found.joined(brought)
    return found


def _checked(name: str, package: str, backend: str, loaded: object) -> KernelRegistry:
    where = f"{GROUP} '{name}'"
    if not isinstance(loaded, KernelRegistry):
        kind = type(loaded).__name__
        raise PluginError(f"it loads a {kind}, which is not a KernelRegistry", where=where)
    if loaded.backend != backend:
        raise PluginError(f"its kernels are for the backend '{loaded.backend}'", where=where)
    foreign = sorted({other for other, _ in loaded if other != package})
    if foreign:
        raise PluginError(f"it has kernels for other packages: {', '.join(foreign)}", where=where)
    return loaded
