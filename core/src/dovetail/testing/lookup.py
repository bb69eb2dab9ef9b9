"""What the kit's options name: backends, op packages and cases."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any, cast

from dovetail.errors import ConfigError, suggest_name
from dovetail.ops import OpPackage
from dovetail.plugins.ops import installed_ops
from dovetail.runtime import contract
from dovetail.testing.case import OpCase


def find_object(text: str) -> Any:
    """Return what `module:attribute` names.

    Raises:
        ConfigError: The module cannot be imported, or has no such attribute.
    """
    module_name, _, attribute = text.partition(":")
    try:
        found = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(
            f"module '{module_name}' cannot be imported: {error}",
            where=text,
            hint="the module must be installed, or its folder on PYTHONPATH",
        ) from error
    if not hasattr(found, attribute):
        known = [name for name in vars(found) if not name.startswith("_")]
        raise ConfigError(
            f"module '{module_name}' has no '{attribute}'",
            where=text,
            hint=suggest_name(attribute, known),
        )
    return getattr(found, attribute)


def find_backend(text: str) -> str | type[contract.Backend]:
    """Return the name of an installed backend as it is, or the class that `module:Class` names.

    Raises:
        ConfigError: There is no such class.
    """
    if ":" not in text:
        return text
    found = find_object(text)
    if not isinstance(found, type) or not hasattr(found, "prepare"):
        raise ConfigError("it is not a backend's class", where=text)
    return cast("type[contract.Backend]", found)


def find_package(text: str) -> OpPackage:
    """Return an installed op package by name, or the one that `module:attribute` names.

    Raises:
        ConfigError: `module:attribute` names something else.
        UnsupportedOpError: No package of that name is installed.
    """
    if ":" not in text:
        return installed_ops().package(text)
    found = find_object(text)
    if not isinstance(found, OpPackage):
        raise ConfigError(f"it is a {type(found).__name__}, not an OpPackage", where=text)
    return found


def find_cases(texts: Iterable[str]) -> tuple[OpCase, ...]:
    """Return the cases of all sequences that `module:attribute`s name.

    Raises:
        ConfigError: One of them is not a sequence of `OpCase`s, or two cases have one id.
    """
    cases: dict[str, OpCase] = {}
    for text in texts:
        found = find_object(text)
        for case in found if isinstance(found, Iterable) else (found,):
            if not isinstance(case, OpCase):
                raise ConfigError(f"holds a {type(case).__name__}, not an OpCase", where=text)
            key = f"{case.package}-{case.id}"
            if key in cases:
                raise ConfigError(
                    f"two cases are '{key}'", where=text, hint="give each a `name` of its own"
                )
            cases[key] = case
    return tuple(cases.values())
