"""Typed decoding of data from outside: unknown keys all at once, then the first wrong type.

Config files, manifests and traces are msgspec Structs; this is the one place where foreign JSON or
TOML becomes one of them.
"""

from __future__ import annotations

import itertools
import types
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from dovetail.errors import ConfigError, DovetailError, Problem, unknown_name

T = TypeVar("T")


def convert(
    data: object, to: type[T], *, where: str, error: type[DovetailError] = ConfigError
) -> T:
    """Gives plain data (dicts, lists, numbers, text) as a typed Struct.

    Args:
        data: What a JSON or TOML reader gave.
        to: The Struct's class.
        where: Name of the file, for errors.
        error: Class of the errors.

    Raises:
        DovetailError: Of class `error`: keys that nothing reads (all of them, each with the nearest
            valid one), or else the first value of a wrong type, with its path.
    """
    unknown = list(_unknown_keys(data, to, "$"))
    if unknown:
        code = "CONFIG_UNKNOWN_KEY" if error is ConfigError else None
        raise error("there are keys that nothing reads", code=code, where=where, problems=unknown)
    try:
        return msgspec.convert(data, to)
    except msgspec.ValidationError as failure:
        # the path comes last; a value quoted before it may hold anything
        text, _, path = str(failure).rpartition(" - at ")
        place = f"{where}: {path.strip('`')}" if text else where
        raise error(text or path, where=place) from failure


def _unknown_keys(data: object, to: Any, path: str) -> Iterator[Problem]:
    if isinstance(data, dict) and (struct := _struct_of(data, to)) is not None:
        fields = {f.encode_name: f.type for f in msgspec.structs.fields(struct)}
        tag = struct.__struct_config__.tag_field
        for key, value in data.items():
            if key in fields:
                yield from _unknown_keys(value, fields[key], f"{path}.{key}")
            elif key != tag:
                yield Problem("unknown key", f"{path}.{key}", unknown_name(str(key), fields))
    elif isinstance(data, dict):
        inner = _value_type(to)
        for key, value in data.items():
            yield from _unknown_keys(value, inner, f"{path}.{key}")
    elif isinstance(data, list):
        for i, (value, inner) in enumerate(zip(data, _item_types(to), strict=False)):
            yield from _unknown_keys(value, inner, f"{path}[{i}]")


def _struct_of(data: dict[Any, Any], to: Any) -> type[msgspec.Struct] | None:
    """The Struct that a mapping is to become; in a union of several, the one its tag names."""
    structs = [
        t for t in _alternatives(to) if isinstance(t, type) and issubclass(t, msgspec.Struct)
    ]
    if len(structs) == 1:
        return structs[0]
    for struct in structs:
        config = struct.__struct_config__
        if config.tag is not None and data.get(config.tag_field) == config.tag:
            return struct
    return None  # msgspec says what is wrong with the tag


def _value_type(to: Any) -> Any:
    """The type of a mapping's values; None if `to` is no mapping."""
    for option in _alternatives(to):
        origin, arguments = typing.get_origin(option), typing.get_args(option)
        if isinstance(origin, type) and issubclass(origin, Mapping) and len(arguments) == 2:
            return arguments[1]
    return None


def _item_types(to: Any) -> Iterable[Any]:
    """The types of a sequence's items, one after the other; none if `to` is no sequence."""
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
