"""Lookup of the backends, op packages and cases that the kit's options name."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any, cast

from dovetail.errors import ConfigError, suggest_name
from dovetail.ops import OpPackage
from dovetail.plugins.ops import installed_ops
from dovetail.runtime import contract
from dovetail.runtime.names import split_order
from dovetail.testing.case import OpCase


def find_object(text: str) -> Any:
    """Return the object with the name `module:attribute`.

    Raises:
        ConfigError: The module cannot be imported, or has no such attribute.
    """
    module_name, _, attribute = text.partition(":")
    try:
        found = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(
            f"cannot import module '{module_name}': {error}",
            where=text,
            hint="the module must be installed, or its folder on PYTHONPATH",
        ) from error
    if not hasattr(found, attribute):
        known = [name for name in vars(found) if not name.startswith("_")]
        raise ConfigError(
            f"attribute '{attribute}' not found in module '{module_name}'",
            where=text,
            hint=suggest_name(attribute, known),
        )
    return getattr(found, attribute)


def find_backend(text: str) -> str | type[contract.Backend]:
    """Return the name of an installed backend unchanged, or the class `module:Class`.

    Raises:
        ConfigError: The class is not found.
    """
    if ":" not in text or split_order(text)[1] is not None:  # `hetero:a,b`
        return text
    found = find_object(text)
    if not isinstance(found, type) or not hasattr(found, "prepare"):
        raise ConfigError("expected the class of a backend", where=text)
    return cast("type[contract.Backend]", found)


def find_package(text: str) -> OpPackage:
    """Return an installed op package by name, or the op package `module:attribute`.

    Raises:
        ConfigError: `module:attribute` is not an op package.
        UnsupportedOpError: The package is not installed.
    """
    if ":" not in text:
        return installed_ops().package(text)
    found = find_object(text)
    if not isinstance(found, OpPackage):
        raise ConfigError(f"expected an OpPackage, got {type(found).__name__}", where=text)
    return found


def find_cases(texts: Iterable[str]) -> tuple[OpCase, ...]:
    """Return the cases of all sequences with the names `module:attribute`.

    Raises:
        ConfigError: One of them is not a sequence of `OpCase`s, or two cases have the same id.
    """
    cases: dict[str, OpCase] = {}
    for text in texts:
        found = find_object(text)
        for case in found if isinstance(found, Iterable) else (found,):
            if not isinstance(case, OpCase):
                raise ConfigError(f"expected an OpCase, got {type(case).__name__}", where=text)
            key = f"{case.package}-{case.id}"
            if key in cases:
                raise ConfigError(
                    f"duplicate case '{key}'", where=text, hint="give each case a different `name`"
                )
            cases[key] = case
    return tuple(cases.values())
