"""The op packages that are installed, as one registry of ops."""

from __future__ import annotations

from dovetail.errors import PluginError
from dovetail.ops import OpPackage, OpRegistry
from dovetail.plugins import registry

GROUP = "dovetail.op_packages"


def installed_ops() -> OpRegistry:
    """Return a registry of all installed op packages; each is loaded when first asked for.

    A new one every time: what is added to it by hand is nobody else's.
    """
    return OpRegistry(_load, _usable)


def _load(name: str) -> OpPackage | None:
    """Return a package, or None where there is none: the op registry says which ones there are."""
    try:
        return _checked(name, registry.load(GROUP, name))
    except PluginError as error:
        if error.code == "PLUGIN_MISSING":
            return None
        raise


def _usable() -> list[str]:
    # Whoever goes through all packages must not stumble over a broken one.
    return [name for name, found in registry.load_all(GROUP).items() if _fault(name, found) == ""]


def _checked(name: str, found: object) -> OpPackage:
    if isinstance(found, OpPackage) and found.name == name:
        return found
    raise PluginError(_fault(name, found), where=f"{GROUP} '{name}'")


def _fault(name: str, found: object) -> str:
    if not isinstance(found, OpPackage):
        return f"it loads a {type(found).__name__}, which is not an OpPackage"
    return "" if found.name == name else f"it loads a package that calls itself '{found.name}'"
