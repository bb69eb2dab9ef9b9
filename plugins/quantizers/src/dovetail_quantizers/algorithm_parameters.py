"""Creation of algorithms with the parameters of the user."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any

import msgspec

from dovetail.errors import ConfigError, Problem, suggest_name
from dovetail.quantization import QuantizationAlgorithm


def make_algorithm(
    kind: type[QuantizationAlgorithm], name: str, given: Mapping[str, Any]
) -> QuantizationAlgorithm:
    """Create an algorithm.

    Args:
        kind: Its class. The fields of a dataclass are parameters; other classes have none.
        name: The name of its entry point.
        given: Parameters by name. Text from the command line is converted to any type.

    Raises:
        ConfigError: Some parameters are unknown or have the wrong type; all are listed.
    """
    types = _types(kind)
    problems: list[Problem] = []
    values: dict[str, Any] = {}
    for key, value in given.items():
        where = f"parameter '{key}'"
        if key not in types:
            hint = suggest_name(key, types) if types else "the algorithm takes no parameters"
            problems.append(Problem("unknown parameter", where, hint))
            continue
        try:
            values[key] = msgspec.convert(value, types[key], strict=not isinstance(value, str))
        except msgspec.ValidationError as error:
            problems.append(Problem(f"{value!r}: {error}", where))
    if problems:
        raise ConfigError("invalid parameters", where=f"algorithm '{name}'", problems=problems)
    return kind(**values)


def _types(kind: Any) -> dict[str, Any]:
    if not dataclasses.is_dataclass(kind):
        return {}
    hints = typing.get_type_hints(kind)
    return {each.name: hints[each.name] for each in dataclasses.fields(kind) if each.init}
