"""Making an algorithm with the parameters that the user gives."""

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
        kind: Its class; parameters are the fields of a dataclass, any other class takes none.
        name: As the user names it.
        given: Parameters by name. Text, as the command line has it, stands for any type.

    Raises:
        ConfigError: Parameters that it does not have, or values of a wrong type; all are listed.
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
