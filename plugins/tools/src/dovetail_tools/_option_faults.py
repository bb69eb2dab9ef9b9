"""Faults of a command line, so that one error lists all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from dovetail.errors import ConfigError, Problem
from dovetail_tools._errors import usage

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule about two options.

    Attributes:
        first, second: The options, by the names of their parameters.
        hint: What to do.
    """

    first: str
    second: str
    hint: str = ""


class OptionFaults:
    """Collects the faults of a command line.

    Args:
        params: The values of the command's parameters by name; an option that is not given has the
            value None or False, or is an empty sequence.
    """

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._given = {name for name, value in params.items() if value not in (None, False, [], ())}
        self._problems: list[Problem] = []

    def check_exclusive(self, rules: Iterable[Rule]) -> None:
        """Record the pairs of options of which only one may be given."""
        for rule in rules:
            if rule.first in self._given and rule.second in self._given:
                names = f"{option(rule.first)} and {option(rule.second)}"
                self.add(f"{names} are mutually exclusive", hint=rule.hint)

    def check_required(self, rules: Iterable[Rule]) -> None:
        """Record the options that are given without another one that they require."""
        for rule in rules:
            if rule.first in self._given and rule.second not in self._given:
                self.add(f"{option(rule.first)} requires {option(rule.second)}", hint=rule.hint)

    def add(self, message: str, *, where: str = "", hint: str = "") -> None:
        """Record a fault."""
        self._problems.append(Problem(message, where, hint))

    def value(self, parse: Callable[..., T], *args: Any) -> T | None:
        """Return a parsed value; None, and a fault, if it cannot be parsed."""
        try:
            return parse(*args)
        except ConfigError as error:
            self.add(error.message, where=error.where, hint=error.hint)
            return None

    def raise_all(self) -> None:
        """Raise one error for all faults; do nothing if there are none.

        Raises:
            ConfigError: There are faults.
        """
        if len(self._problems) == 1:
            (only,) = self._problems
            raise usage(only.message, where=only.where, hint=only.hint)
        if self._problems:
            raise ConfigError("invalid options", code="USAGE", problems=self._problems)


def option(param: str) -> str:
    """Return the option of a parameter."""
    return "--" + param.replace("_", "-")
