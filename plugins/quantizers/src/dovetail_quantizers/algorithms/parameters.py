"""Parameters of algorithms: fields of a frozen dataclass, checked when one is made."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from dovetail.errors import ConfigError, Problem

_KEY = "between"


@dataclass(frozen=True, slots=True)
class Between:
    """The range of a number, its ends included.

    rounds: int = field(default=100, metadata=Between(1, 1000).metadata)
    """

    minimum: float
    maximum: float

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What a dataclass field keeps of it."""
        return {_KEY: self}


class Parameterized(Protocol):
    """A dataclass."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]


def check_parameters(algorithm: Parameterized, name: str) -> None:
    """Check the fields of an algorithm: each is of its default's type, and within its range.

    Raises:
        ConfigError: Some are not; it says all.
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
