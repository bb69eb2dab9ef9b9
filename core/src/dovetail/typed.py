"""Typed decoding of data from outside: unknown keys all at once, then the first wrong type.

Config files, manifests and traces are msgspec Structs; this is the one place where foreign JSON or
TOML becomes one of them.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Iterator
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
        text, _, path = str(failure).partition(" - at ")
        place = f"{where}: {path.strip('`')}" if path else where
        raise error(text, where=place) from failure


def _unknown_keys(data: object, to: Any, path: str) -> Iterator[Problem]:
    if isinstance(data, dict) and (struct := _struct_in(to)) is not None:
        fields = _fields(struct)
        tag = struct.__struct_config__.tag_field
        for key, value in data.items():
            if key in fields:
                yield from _unknown_keys(value, fields[key], f"{path}.{key}")
            elif key != tag:
                yield Problem("unknown key", f"{path}.{key}", unknown_name(str(key), fields))
    elif isinstance(data, dict) and (inner := _argument(to, dict)) is not None:
        for key, value in data.items():
            yield from _unknown_keys(value, inner, f"{path}.{key}")
    elif isinstance(data, list) and (inner := _argument(to, list)) is not None:
        for i, value in enumerate(data):
            yield from _unknown_keys(value, inner, f"{path}[{i}]")


@functools.cache  # msgspec evaluates the annotations each time
def _fields(struct: type[msgspec.Struct]) -> dict[str, Any]:
    return {f.encode_name: f.type for f in msgspec.structs.fields(struct)}


def _struct_in(to: Any) -> type[msgspec.Struct] | None:
    """The one Struct that a mapping of this type can be; tagged unions are left to msgspec."""
    structs = [t for t in _alternatives(to) if isinstance(t, type) and _is_struct(t)]
    return structs[0] if len(structs) == 1 else None


def _is_struct(to: type) -> bool:
    return issubclass(to, msgspec.Struct) and not dataclasses.is_dataclass(to)


def _argument(to: Any, container: type) -> Any:
    for option in _alternatives(to):
        origin = typing.get_origin(option)
        if origin in (container, tuple) and typing.get_args(option):
            return typing.get_args(option)[-1 if container is dict else 0]
    return None


def _alternatives(to: Any) -> tuple[Any, ...]:
    if typing.get_origin(to) is typing.Annotated:
        return _alternatives(typing.get_args(to)[0])
    if typing.get_origin(to) in (typing.Union, types.UnionType):
        return tuple(a for option in typing.get_args(to) for a in _alternatives(option))
    return (to,)
