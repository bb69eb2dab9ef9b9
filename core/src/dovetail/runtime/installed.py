"""Backends by name, and the options in a name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from dovetail.errors import ConfigError, PluginError
from dovetail.plugins import GROUPS, load
from dovetail.runtime import contract
from dovetail.runtime.names import backend_name, split_arch, split_order


def backend_class(name: str) -> type[contract.Backend]:
    """Return the class of an installed backend; `htp:v73` is `htp`, `hetero:a,b` is `hetero`.

    Raises:
        PluginError: It is not installed, cannot be loaded or does not meet the contract.
    """
    plugin, _ = split_arch(backend_name(name))
    return cast("type[contract.Backend]", load("dovetail.backends", plugin))


def checked_class(found: type[contract.Backend]) -> type[contract.Backend]:
    """Return a class that is not installed.

    Raises:
        PluginError: It does not meet the contract.
    """
    if faults := GROUPS["dovetail.backends"].faults(found, getattr(found, "name", "")):
        raise PluginError(
            f"the class is not a backend: {'; '.join(faults)}",
            where=found.__qualname__,
            hint="see dovetail.runtime.contract.Backend",
        )
    return found


def named_options(name: str, options: contract.Options) -> contract.Options:
    """Return options with what follows the colon of a backend's name.

    Raises:
        ConfigError: The backend has no architectures.
    """
    (plugin, arch), (_, order) = split_arch(name), split_order(name)
    if order is not None:
        return cast("contract.Options", cast("Any", options).ordered(order))  # `HeteroOptions`
    if arch is None:
        return options
    if "arch" not in options.__struct_fields__:
        raise ConfigError(
            f"backend '{plugin}' has no architectures", where=name, hint=f"use '{plugin}'"
        )
    return msgspec.structs.replace(options, arch=arch)


def without_files(name: str, options: Any) -> Any:
    """Return the recorded options of an installed backend without files that it would write.

    Args:
        name: Name of the backend, as for `backend_class`.
        options: What a trace has for them; None for the defaults.
    """
    if not isinstance(options, Mapping) and options is not None:
        return options
    try:
        found = backend_class(name).configs.backend
    except PluginError:
        return options  # creating it fails, too
    return found.without_files(options or {}) or options
