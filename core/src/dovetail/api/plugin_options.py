"""Options of frontends and exporters: from base options or plain values, and as text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, overload

import msgspec
import numpy as np

from dovetail.arguments import without_numpy
from dovetail.errors import ConfigError, Problem, suggest_name
from dovetail.ops.exporter import Exporter, ExportOptions
from dovetail.ops.frontend import Frontend, FrontendOptions
from dovetail.typed import convert, parse_value

# Inputs with up to this many values are recorded in full in the manifest, others by their hash.
_SHOWN_VALUES = 16


@overload
def options_for(plugin: Frontend, options: FrontendOptions | None = None) -> FrontendOptions: ...
@overload
def options_for(plugin: Exporter, options: ExportOptions | None = None) -> ExportOptions: ...
def options_for(plugin: Any, options: Any = None) -> Any:
    """Return options as an object of the plugin's `options_type`.

    Args:
        plugin: A frontend or an exporter.
        options: Options of its type, or of the base class, which suit every plugin of the kind; by
            default none.

    Raises:
        ConfigError: The options are another plugin's, or have values of wrong types; lists all of
            these (USAGE).
    """
    kind = plugin.options_type
    noun, base = _noun_and_base(kind)
    if options is None:
        return kind()
    if isinstance(options, kind) and kind is not base:
        return _checked(options)
    if type(options) is base:
        checked = _checked(options)
        return kind(**{name: getattr(checked, name) for name in options.__struct_fields__})
    raise ConfigError(
        f"the {noun} '{plugin.name}' has no options of type {type(options).__name__}",
        code="USAGE",
        hint=f"pass a {kind.__name__} or a {base.__name__}",
    )


def _checked(options: msgspec.Struct) -> msgspec.Struct:
    """Return options with Python's numbers for NumPy's, which their types do not accept.

    Raises:
        ConfigError: Values have wrong types; all are listed (USAGE).
    """
    problems: list[Problem] = []
    changed: dict[str, Any] = {}
    for field in msgspec.structs.fields(options):
        value = getattr(options, field.name)
        try:
            msgspec.convert(value, field.type, dec_hook=_as_array)
        except msgspec.ValidationError:
            plain = without_numpy(value)
            try:
                changed[field.name] = convert(plain, field.type, where="", path=field.name)
            except ConfigError as error:
                problems += error.as_problems(error.where.removeprefix(": ") or field.name)
    if problems:
        raise ConfigError("invalid options", code="USAGE", problems=problems)
    return msgspec.structs.replace(options, **changed) if changed else options


def _as_array(_kind: type, value: object) -> np.ndarray:
    return np.asarray(value)  # values of inputs may be lists


@overload
def options_from(
    plugin: Frontend, given: Mapping[str, Any], spelled: Mapping[str, str] | None = None
) -> FrontendOptions: ...
@overload
def options_from(
    plugin: Exporter, given: Mapping[str, Any], spelled: Mapping[str, str] | None = None
) -> ExportOptions: ...
def options_from(
    plugin: Any, given: Mapping[str, Any], spelled: Mapping[str, str] | None = None
) -> Any:
    """Return the options of a plugin from their names and values.

    Args:
        plugin: A frontend or an exporter.
        given: Options by name. Text becomes a value of the option's type.
        spelled: How the user spells an option, for errors; by default by its name.

    Raises:
        ConfigError: Options that the plugin lacks, or wrong values; lists all (USAGE).
    """
    kind = plugin.options_type
    noun, base = _noun_and_base(kind)
    known = {field.name: field.type for field in msgspec.structs.fields(kind)}
    problems: list[Problem] = []
    values: dict[str, Any] = {}
    for name, value in given.items():
        where = (spelled or {}).get(name, name)
        if name not in known:
            text = f"the {noun} '{plugin.name}' has no option '{name}'"
            problems.append(Problem(text, where, suggest_name(name, known)))
            continue
        try:
            is_ready = name in base.__struct_fields__
            values[name] = value if is_ready else parse_value(value, known[name])
        except ConfigError as error:
            problems.append(error.as_problem(where))
    if problems:
        raise ConfigError("invalid options", code="USAGE", problems=problems)
    return kind(**values)


def assignments(texts: Iterable[str], option: str, problems: list[Problem]) -> dict[str, str]:
    """Return the options of NAME=VALUE texts by name.

    Args:
        texts: The texts.
        option: The option that gives them, for errors.
        problems: Receives a problem for each text of another form, and for each second value.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        key = name.replace("-", "_")
        if not equals or not name:
            problems.append(Problem(f"expected NAME=VALUE, got '{text}'", option))
        elif found.setdefault(key, value) != value:
            problems.append(Problem("given twice", f"{option} {name}"))
    return found


def options_text(options: FrontendOptions) -> dict[str, str]:
    """Return the options that differ from their defaults, as JSON text."""
    given = msgspec.to_builtins(options, enc_hook=_summary)
    defaults = msgspec.to_builtins(type(options)())
    return {
        name: msgspec.json.encode(value, order="sorted").decode()
        for name, value in given.items()
        if value != defaults[name]
    }


def _summary(values: object) -> dict[str, object]:
    """Return a short description of an array for the manifest."""
    if not isinstance(values, np.ndarray):
        raise NotImplementedError(f"unsupported option type {type(values).__name__}")
    summary: dict[str, object] = {"dtype": str(values.dtype), "shape": list(values.shape)}
    if values.size <= _SHOWN_VALUES and values.dtype.kind in "iub":
        return summary | {"values": values.tolist()}
    return summary | {"sha256": hashlib.sha256(values.tobytes()).hexdigest()}


def _noun_and_base(kind: type[msgspec.Struct]) -> tuple[str, type[msgspec.Struct]]:
    if issubclass(kind, FrontendOptions):
        return "frontend", FrontendOptions
    return "exporter", ExportOptions
