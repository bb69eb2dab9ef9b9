"""Options of a frontend: from base options or plain values, and as text for a manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from dovetail.errors import ConfigError, Problem, suggest_name
from dovetail.ops.frontend import Frontend, FrontendOptions
from dovetail.typed import parse_value

# Inputs with up to this many values are recorded in full in the manifest, others by their hash.
_SHOWN_VALUES = 16


def options_for(frontend: Frontend, options: FrontendOptions | None = None) -> FrontendOptions:
    """Return options as an object of the frontend's `options_type`.

    Args:
        frontend: The frontend.
        options: Options of its type, or of the base class, which suit every frontend; by default
            none.

    Raises:
        ConfigError: The options are another frontend's (USAGE).
    """
    kind = frontend.options_type
    if options is None:
        return kind()
    if isinstance(options, kind) and kind is not FrontendOptions:
        return options
    if type(options) is FrontendOptions:
        return kind(**{name: getattr(options, name) for name in options.__struct_fields__})
    raise ConfigError(
        f"the frontend '{frontend.name}' has no options of type {type(options).__name__}",
        code="USAGE",
        hint=f"pass a {kind.__name__} or a FrontendOptions",
    )


def options_from(
    frontend: Frontend, given: Mapping[str, Any], spelled: Mapping[str, str] | None = None
) -> FrontendOptions:
    """Return the options of a frontend from their names and values.

    Args:
        frontend: The frontend.
        given: Options by name. Text becomes a value of the option's type.
        spelled: How the user spells an option, for errors; by default by its name.

    Raises:
        ConfigError: Options that the frontend lacks, or wrong values; lists all (USAGE).
    """
    kind = frontend.options_type
    known = {field.name: field.type for field in msgspec.structs.fields(kind)}
    problems: list[Problem] = []
    values: dict[str, Any] = {}
    for name, value in given.items():
        where = (spelled or {}).get(name, name)
        if name not in known:
            text = f"the frontend '{frontend.name}' has no option '{name}'"
            problems.append(Problem(text, where, suggest_name(name, known)))
            continue
        try:
            is_ready = name in FrontendOptions.__struct_fields__
            values[name] = value if is_ready else parse_value(value, known[name])
        except ConfigError as error:
            problems.append(Problem(error.message, where, error.hint))
    if problems:
        raise ConfigError("invalid options", code="USAGE", problems=problems)
    return kind(**values)


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
