"""Groups of options that several commands take."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dovetail_tools._pairs import split_values

Command = Callable[..., None]


@dataclass(frozen=True, slots=True)
class OptionGroup:
    """Options that belong together.

    Attributes:
        name: Name of the command's parameter that receives their values, a mapping.
        options: Annotations with typer's declarations, by name; flags are `bool`.
        counts: Minimum and maximum number of values of those that take several, which a
            `PairCommand` joins; their value is a list with the values of each use.
    """

    name: str
    options: Mapping[str, Any]
    counts: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)

    def parameters(self) -> list[inspect.Parameter]:
        """Return the options as parameters of a command."""
        return [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=False if kind.__origin__ is bool else None,
                annotation=kind,
            )
            for name, kind in self.options.items()
        ]

    def value(self, name: str, value: Any) -> Any:
        """Return an option's value as the command receives it."""
        if name not in self.counts:
            return value
        return [split_values(use) for use in value or ()]


def takes(*groups: OptionGroup) -> Callable[[Command], Command]:
    """Return a decorator that adds groups of options to a command.

    The command has a parameter of each group's name.
    """

    def decorate(command: Command) -> Command:
        declared = inspect.signature(command, eval_str=True).parameters.values()
        names = {group.name for group in groups}
        own = [p for p in declared if p.name not in names]
        added = [parameter for group in groups for parameter in group.parameters()]

        @functools.wraps(command)
        def wrapped(**arguments: Any) -> None:
            given = {
                group.name: {n: group.value(n, arguments.pop(n)) for n in group.options}
                for group in groups
            }
            command(**arguments, **given)

        # `quantization` comes after them in the help
        last = [p for p in own if p.name == "quantization"]
        first = [p for p in own if p.name != "quantization"]
        parameters = [*first, *added, *last]
        wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        wrapped.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
        return wrapped

    return decorate
