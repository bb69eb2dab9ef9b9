"""Parameters of algorithms: fields of a frozen dataclass, with their ranges in their types."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from dovetail.errors import ConfigError, Problem, suggest_name
from dovetail.quantization import QuantizationAlgorithm

Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Share = Annotated[float, Meta(ge=0, le=1)]

_PLAIN = (bool, int, float, str)


class ParameterizedAlgorithm(QuantizationAlgorithm):
    """An algorithm whose parameters are checked: a dataclass with annotated types.

    samples: Annotated[int, Meta(ge=1, le=1000)] = 100
    """

    def __post_init__(self) -> None:
        """Check the parameters.

        Raises:
            ConfigError: Values have the wrong type or are out of range; all are listed.
        """
        kinds = _types(type(self))
        given = {name: getattr(self, name) for name in kinds}
        _converted(given, kinds, self.name, from_text=False)


def make_algorithm(
    kind: type[QuantizationAlgorithm], name: str, given: Mapping[str, Any]
) -> QuantizationAlgorithm:
    """Create an algorithm.

    Args:
        kind: Its class. The fields of a dataclass are parameters; other classes have none.
        name: The name of its entry point.
        given: Parameters by name. Text from the command line is converted to any type.

    Raises:
        ConfigError: Some parameters are unknown, have the wrong type or are out of range; all are
            listed.
    """
    return kind(**_converted(given, _types(kind), name, from_text=True))


def _types(kind: Any) -> dict[str, Any]:
    if not dataclasses.is_dataclass(kind):
        return {}
    hints = typing.get_type_hints(kind, include_extras=True)
    return {each.name: hints[each.name] for each in dataclasses.fields(kind) if each.init}


def _converted(
    given: Mapping[str, Any], kinds: Mapping[str, Any], name: str, *, from_text: bool
) -> dict[str, Any]:
    """Return values in the types of parameters.

    Args:
        given: Values by name.
        kinds: The types of all parameters.
        name: Name of the algorithm.
        from_text: Whether text is converted to other types.

    Raises:
        ConfigError: Some cannot be converted; all are listed.
    """
    problems: list[Problem] = []
    values: dict[str, Any] = {}
    for key, value in given.items():
        where = f"parameter '{key}'"
        if key not in kinds:
            hint = suggest_name(key, kinds) if kinds else "the algorithm takes no parameters"
            problems.append(Problem("unknown parameter", where, hint))
            continue
        strict = not (from_text and isinstance(value, str))
        try:
            values[key] = msgspec.convert(value, kinds[key], strict=strict)
        except msgspec.ValidationError as error:
            problems.append(Problem(_fault(value, kinds[key], str(error)), where))
    if problems:
        raise ConfigError("invalid parameters", where=f"algorithm '{name}'", problems=problems)
    return values


def _fault(value: object, kind: Any, error: str) -> str:
    """Return why a value cannot be converted, with both ends of a range."""
    limits = None
    if typing.get_origin(kind) is Annotated:
        kind, limits, *_ = typing.get_args(kind)
    if "got" in error and kind in _PLAIN:
        return f"{value!r} is not of type {kind.__name__}"
    if isinstance(limits, Meta) and limits.ge is not None and limits.le is not None:
        return f"{value!r} is out of range; expected {limits.ge:g} to {limits.le:g}"
    return f"{value!r}: {error}"
