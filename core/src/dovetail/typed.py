"""Typed decoding of foreign data: reports all unknown keys, then the first wrong type.

Config files, manifests and traces are msgspec Structs, and all of them are decoded here.
"""

from __future__ import annotations

import functools
import itertools
import types
import typing
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from dovetail.errors import ConfigError, DovetailError, Problem, suggest_name

T = TypeVar("T")


def convert(
    data: object,
    to: type[T],
    *,
    where: str,
    path: str = "$",
    error: type[DovetailError] = ConfigError,
) -> T:
    """Return plain data (dicts, lists, numbers, text) as a typed Struct.

    Args:
        data: Decoded JSON or TOML.
        to: The Struct's class.
        where: Name of the file, for errors.
        path: Path of the data in the file, for errors.
        error: Class of the errors.

    Raises:
        DovetailError: Of class `error`: all unknown keys, each with the nearest valid one; if there
            are none, the first value of a wrong type. Each has its path.
    """
    unknown: list[Problem] = []
    _find_unknown_keys(data, to, path, unknown)
    if unknown:
        code = "CONFIG_UNKNOWN_KEY" if error is ConfigError else None
        raise error("unknown keys", code=code, where=where, problems=unknown)
    try:
        return msgspec.convert(data, to)
    except UnicodeError as failure:  # JSON can escape half a surrogate pair
        raise error("text contains half a surrogate pair", where=where) from failure
    except msgspec.ValidationError as failure:
        # The path comes last; a value quoted before it may contain anything.
        text, _, inner = str(failure).rpartition(" - at ")
        inner = inner.strip("`").removeprefix("$") if text else ""
        location = f"{where}: {path}{inner}" if text or path != "$" else where
        raise error(text or str(failure), where=location) from failure


def _find_unknown_keys(data: object, to: Any, path: str, found: list[Problem]) -> None:
    """Add a problem for each key of nested data that the type `to` does not have."""
    if isinstance(data, dict) and (struct := _struct_of(data, to)) is not None:
        fields = _fields_of(struct)
        tag = struct.__struct_config__.tag_field
        for key, value in data.items():
            if key not in fields and key != tag:
                hint = suggest_name(str(key), fields)
                found.append(Problem("unknown key", f"{path}.{key}", hint))
            elif key in fields and isinstance(value, dict | list):
                _find_unknown_keys(value, fields[key], f"{path}.{key}", found)
    elif isinstance(data, dict):
        inner = _value_type(to)
        for key, value in data.items():
            _find_unknown_keys(value, inner, f"{path}.{key}", found)
    elif isinstance(data, list):
        for i, (value, inner) in enumerate(zip(data, _item_types(to), strict=False)):
            if isinstance(value, dict | list):
                _find_unknown_keys(value, inner, f"{path}[{i}]", found)


# Cached: reading a Struct's annotations takes longer than searching most data.
@functools.cache
def _fields_of(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the types of a Struct's fields by their names in data."""
    return {f.encode_name: f.type for f in msgspec.structs.fields(struct)}


def _struct_of(data: dict[Any, Any], to: Any) -> type[msgspec.Struct] | None:
    """Return the Struct for a mapping; in a union, the one that the tag names."""
    structs = [
        t for t in _alternatives(to) if isinstance(t, type) and issubclass(t, msgspec.Struct)
    ]
    if len(structs) == 1:
        return structs[0]
    for struct in structs:
        config = struct.__struct_config__
        if config.tag is not None and data.get(config.tag_field) == config.tag:
            return struct
    return None  # msgspec reports what is wrong with the tag


def _value_type(to: Any) -> Any:
    """Return the type of a mapping's values; None if `to` is not a mapping."""
    for option in _alternatives(to):
        origin, arguments = typing.get_origin(option), typing.get_args(option)
        if isinstance(origin, type) and issubclass(origin, Mapping) and len(arguments) == 2:
            return arguments[1]
    return None


def _item_types(to: Any) -> Iterable[Any]:
    """Return the types of a sequence's items; empty if `to` is not a sequence."""
    for option in _alternatives(to):
        origin, arguments = typing.get_origin(option), typing.get_args(option)
        if not isinstance(origin, type) or not issubclass(origin, Collection) or not arguments:
            continue
        if origin is tuple and arguments[-1] is not Ellipsis:
            return arguments
        if not issubclass(origin, Mapping):
            return itertools.repeat(arguments[0])
    return ()


def _alternatives(to: Any) -> tuple[Any, ...]:
    if typing.get_origin(to) is typing.Annotated:
        return _alternatives(typing.get_args(to)[0])
    if typing.get_origin(to) in (typing.Union, types.UnionType):
        return tuple(a for option in typing.get_args(to) for a in _alternatives(option))
    return (to,)
