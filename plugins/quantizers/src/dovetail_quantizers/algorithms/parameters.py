"""Parameters of algorithms: checked fields of a frozen dataclass."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from dovetail.errors import ConfigError, Problem

_KEY = "between"


@dataclass(frozen=True, slots=True)
class Between:
    """The closed range of a number.

    rounds: int = field(default=100, metadata=Between(1, 1000).metadata)
    """

    minimum: float
    maximum: float

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The metadata for a dataclass field."""
        return {_KEY: self}


class Parameterized(Protocol):
    """A dataclass."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]


def check_parameters(algorithm: Parameterized, name: str) -> None:
    """Check that each field of an algorithm has the type of its default and is in range.

    Raises:
        ConfigError: Some do not; all are listed.
    """
    problems = [
        Problem(text, f"parameter '{each.name}'")
        for each in dataclasses.fields(algorithm)
        for text in _faults(each, getattr(algorithm, each.name))
    ]
    if problems:
        raise ConfigError("invalid parameters", where=f"algorithm '{name}'", problems=problems)


def _faults(parameter: dataclasses.Field[Any], value: object) -> Iterator[str]:
    wanted = type(parameter.default)
    taken = (int, float) if wanted is float else (wanted,)
    if type(value) not in taken:
        yield f"{value!r} is not of type {wanted.__name__}"
        return
    between = parameter.metadata.get(_KEY)
    if not isinstance(between, Between) or not isinstance(value, int | float):
        return
    if not between.minimum <= value <= between.maximum:  # nor is NaN
        yield f"{value!r} is out of range; expected {between.minimum:g} to {between.maximum:g}"
