"""Repeatable options with several values, which typer does not support."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from typer.core import TyperCommand

from dovetail.errors import Problem
from dovetail_tools._errors import usage

# Arguments of a process never contain it, so it can join values into one.
_JOINT = "\0"

Counts = Mapping[str, tuple[int, int | None]]
Choices = Mapping[str, tuple[str, ...]]


class PairCommand(TyperCommand):
    """A command with options that take NAME VALUE, or other numbers of values.

    Attributes:
        pairs: Names of the parameters of the options with two values.
        counts: Minimum and maximum number of values of other options, by parameter; None for any
            number. Such a parameter is declared as a list of strings, one for each use.
        choices: The only values of some of those, by parameter: another token is not a value.
    """

    pairs: ClassVar[tuple[str, ...]] = ()
    counts: ClassVar[Counts] = {}
    choices: ClassVar[Choices] = {}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Join the values of each use before the parser sees them."""
        counts = dict.fromkeys(self.pairs, (2, 2)) | dict(self.counts)
        options = {o: counts[p.name] for p in self.params if p.name in counts for o in p.opts}
        choices = {
            o: self.choices[p.name] for p in self.params if p.name in self.choices for o in p.opts
        }
        return super().parse_args(ctx, list(_joined(args, options, choices, ctx.command_path)))


def split_values(text: str) -> tuple[str, ...]:
    """Return the values of one use of an option."""
    return tuple(text.split(_JOINT)[1:])


def split_pairs(values: Iterable[str] | None) -> list[tuple[str, str]]:
    """Return the pairs of an option, as names and values."""
    found = []
    for text in values or ():
        name, value = split_values(text)
        found.append((name, value))
    return found


def by_name(
    option: str, pairs: Iterable[tuple[str, str]], problems: list[Problem], hint: str = ""
) -> dict[str, str]:
    """Return the value of each name of an option.

    Args:
        option: The option.
        pairs: Names and values.
        problems: Receives names with several values.
        hint: What to do instead of giving several.
    """
    found: dict[str, str] = {}
    for name, value in pairs:
        if found.setdefault(name, value) != value:
            text = f"contradictory values {found[name]} and {value}"
            problems.append(Problem(text, f"{option} {name}", hint))
    return found


def _joined(
    args: list[str],
    options: Counts,
    choices: Choices,
    command: str,
) -> Iterator[str]:
    tokens = list(args)
    while tokens:
        token = tokens.pop(0)
        option, equals, first = token.partition("=")
        if option not in options:
            yield token
            continue
        least, most = options[option]
        values = [first] if equals else []
        while tokens and (most is None or len(values) < most):
            is_other = option in choices and tokens[0] not in choices[option]
            if len(values) >= least and (is_other or tokens[0].startswith("-")):
                break
            values.append(tokens.pop(0))
        if len(values) < least:
            count = "two values" if least == most == 2 else f"at least {least} values"
            raise usage(f"option '{option}' takes {count}", where=command)
        yield option
        # the first part is empty, so that no value at all differs from an empty one
        yield _JOINT.join(["", *values])
