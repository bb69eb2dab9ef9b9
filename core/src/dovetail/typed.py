"""Typed decoding of foreign data: reports all unknown keys and all wrong values.

Config files, manifests and traces are msgspec Structs, and all of them are decoded here.
"""

from __future__ import annotations

import enum
import functools
import itertools
import re
import types
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from dovetail.errors import ConfigError, DovetailError, Problem, suggest_name

T = TypeVar("T")

_LOCATED = r"(?s)(.*) - at `\$(.*)`"
# JSON can escape half a surrogate pair, which no other encoding of text can express.
_INVALID = (msgspec.ValidationError, UnicodeError)
_UNKNOWN_FIELD = "Object contains unknown field"


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
        DovetailError: Of class `error`: all unknown keys, each with the nearest valid one, all
            values of a wrong type and all missing keys. Each has its path.
    """
    unknown: list[Problem] = []
    wrong: list[Problem] = []
    _find_unknown_keys(data, to, path, unknown)
    cause: Exception | None = None
    try:
        made = msgspec.convert(data, to)
    except _INVALID as failure:
        cause = failure
        _find_wrong_values(data, to, path, wrong)
        if not unknown and not wrong:  # a key that only msgspec knows to be wrong
            wrong.append(_problem(failure, path))
    if cause is None and not unknown:
        return made
    if not wrong:
        code = "CONFIG_UNKNOWN_KEY" if error is ConfigError else None
        raise error("unknown keys", code=code, where=where, problems=unknown) from cause
    if unknown or len(wrong) > 1:
        text = "unknown keys and wrong values" if unknown else "wrong values"
        raise error(text, where=where, problems=[*unknown, *wrong]) from cause
    (only,) = wrong
    location = where if only.where == "$" else f"{where}: {only.where}"
    raise error(only.message, where=location, hint=only.hint) from cause


def parse_value(value: object, to: Any) -> Any:
    """Return a value of a command line as a type: text becomes a number, a switch or a list.

    Args:
        value: Text, which is JSON for a list, or a value of a type that `msgspec` converts.
        to: The type.

    Raises:
        ConfigError: It is not of the type (USAGE).
    """
    try:
        is_list = isinstance(value, str) and value.startswith("[")
        data = msgspec.json.decode(str(value)) if is_list else value
        return msgspec.convert(data, to, strict=False)
    except (msgspec.DecodeError, *_INVALID) as error:
        if names := _names(to):
            message = f"unsupported value '{value}'; expected {' or '.join(names)}"
        else:
            message = f"unsupported value '{value}': {error}"
        hint = suggest_name(value, names) if isinstance(value, str) and len(names) > 2 else ""
        raise ConfigError(message, code="USAGE", hint=hint) from error


def effect(text: str) -> msgspec.Meta:
    """Return an annotation of a config's key that states what the key does; empty if nothing."""
    return msgspec.Meta(extra={"effect": text})


NO_EFFECT = effect("")


def effect_of(to: Any) -> str | None:
    """Return the stated effect of a key from its type; None if none is stated."""
    if typing.get_origin(to) is not typing.Annotated:
        return None
    stated = (m.extra for m in typing.get_args(to)[1:] if isinstance(m, msgspec.Meta))
    return next((extra["effect"] for extra in stated if extra and "effect" in extra), None)


def keys_without_effect(data: object, to: Any, path: str = "$") -> Iterator[str]:
    """Yield the path of every key of nested data that is annotated as having no effect."""
    for value, inner, where in _parts(data, to, path):
        if effect_of(inner) == "":
            yield where
        else:
            yield from keys_without_effect(value, inner, where)


def drop_unknown_keys(data: object, to: Any) -> None:
    """Remove every key of nested data, in place, that the type `to` does not have."""
    if isinstance(data, dict) and (struct := _struct_of(data, to)) is not None:
        known = {*_fields_of(struct), struct.__struct_config__.tag_field}
        for key in data.keys() - known:
            del data[key]
    for value, inner, _ in _parts(data, to, ""):
        drop_unknown_keys(value, inner)


def without_faults(data: object, to: Any) -> Any:
    """Return nested data without unknown keys, and without keys whose values have a wrong type.

    A list is complete or missing: positions in it are those in the data.
    """
    if isinstance(data, dict):
        struct = _struct_of(data, to)
        inner = dict.fromkeys(data, _value_type(to)) if struct is None else _fields_of(struct)
        if struct is not None and (tag := struct.__struct_config__.tag_field):
            inner = {**inner, tag: Any}
        parts = {k: without_faults(v, inner[k]) for k, v in data.items() if inner.get(k)}
        return {key: part for key, part in parts.items() if _fits(part, inner[key])}
    if isinstance(data, list):
        items = zip(data, _item_types(to), strict=False)
        found = [without_faults(value, item) for value, item in items]
        return found if len(found) == len(data) else data
    return data


def _fits(data: object, to: Any) -> bool:
    try:
        msgspec.convert(data, to)
    except _INVALID:
        return False
    return True


def _find_unknown_keys(data: object, to: Any, path: str, found: list[Problem]) -> None:
    """Add a problem for each key of nested data that the type `to` does not have."""
    if isinstance(data, dict) and (struct := _struct_of(data, to)) is not None:
        fields = _fields_of(struct)
        tag = struct.__struct_config__.tag_field
        found += (
            Problem("unknown key", f"{path}.{key}", suggest_name(str(key), fields))
            for key in data
            if key not in fields and key != tag
        )
    for value, inner, where in _parts(data, to, path):
        if isinstance(value, dict | list):
            _find_unknown_keys(value, inner, where, found)


def _find_wrong_values(data: object, to: Any, path: str, found: list[Problem]) -> None:
    """Add a problem for each value of a wrong type, and for each required key that is missing."""
    try:
        msgspec.convert(data, to)
    except _INVALID as error:
        failure: Exception = error
    else:
        return
    before = len(found)
    for value, inner, where in _parts(data, to, path):
        _find_wrong_values(value, inner, where, found)
    if isinstance(data, dict) and (struct := _struct_of(data, to)) is not None:
        found += (
            Problem(f"Object missing required field `{field.encode_name}`", path)
            for field in msgspec.structs.fields(struct)
            if field.required and field.encode_name not in data
        )
    if len(found) == before and not str(failure).startswith(_UNKNOWN_FIELD):
        problem = _problem(failure, path)
        found.append(replace(problem, hint=_nearest_name(data, to)))


def _nearest_name(value: object, to: Any) -> str:
    """Return advice for text that none of the names in a type's enumerations is."""
    names = _names(to)
    return suggest_name(value, names) if isinstance(value, str) and names else ""


def _names(to: Any) -> list[str]:
    """Return the names in a type's enumerations."""
    names: list[str] = []
    for option in _alternatives(to):
        if typing.get_origin(option) is typing.Literal:
            names += map(str, typing.get_args(option))
        elif isinstance(option, type) and issubclass(option, enum.Enum):
            names += (str(member.value) for member in option)
    return names


def _problem(failure: Exception, path: str) -> Problem:
    if isinstance(failure, UnicodeError):
        return Problem("text contains half a surrogate pair", path)
    # The path comes last; a value quoted before it may contain anything.
    located = re.fullmatch(_LOCATED, str(failure))
    return Problem(located[1], path + located[2]) if located else Problem(str(failure), path)


def _parts(data: object, to: Any, path: str) -> Iterator[tuple[object, Any, str]]:
    """Yield the values in a mapping or list that have a type, with their types and paths."""
    if isinstance(data, dict) and (struct := _struct_of(data, to)) is not None:
        fields = _fields_of(struct)
        for key, value in data.items():
            if key in fields:
                yield value, fields[key], f"{path}.{key}"
    elif isinstance(data, dict) and (inner := _value_type(to)) is not None:
        for key, value in data.items():
            yield value, inner, f"{path}.{key}"
    elif isinstance(data, list):
        for i, (value, inner) in enumerate(zip(data, _item_types(to), strict=False)):
            yield value, inner, f"{path}[{i}]"


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
