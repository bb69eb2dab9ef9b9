"""The installed op packages as one registry of ops."""

from __future__ import annotations

from typing import cast

from dovetail.errors import PluginError
from dovetail.ops import OpPackage, OpRegistry
from dovetail.plugins import registry

GROUP = "dovetail.op_packages"


def installed_ops() -> OpRegistry:
    """Return a new registry of all installed op packages; each is loaded on first use.

    Packages added to one registry do not appear in others.
    """
    return OpRegistry(_load, _usable)


def is_replaced(name: str, ops: OpRegistry) -> bool:
    """Return whether a registry has another package of this name than the installed one."""
    added = [package for package in ops.added if package.name == name]
    return (
        bool(added)
        and name in registry.names(GROUP)
        and registry.load_usable(GROUP, name) is not added[0]
    )


def not_installed(ops: OpRegistry) -> dict[str, str]:
    """Return the versions of a registry's packages that are not the installed ones, by name."""
    if not ops.added:
        return {}  # listing what is installed would slow the start of a process
    installed = registry.names(GROUP)
    return {
        package.name: package.version
        for package in ops.added
        if package.name not in installed or is_replaced(package.name, ops)
    }


def _load(name: str) -> OpPackage | None:
    """Return a package, or None if it is not installed: the op registry suggests others."""
    try:
        return cast("OpPackage", registry.load(GROUP, name))
    except PluginError as error:
        if error.code == "PLUGIN_MISSING":
            return None
        raise


def _usable() -> list[str]:
    return list(registry.load_all(GROUP))  # a broken package does not stop an iteration over all
