"""Repeatable options with two values, which typer does not support."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from typer.core import TyperCommand

from dovetail_tools._errors import usage

# Arguments of a process never contain it, so it can join a pair into one value.
_JOINT = "\0"


class PairCommand(TyperCommand):
    """A command with options that take NAME VALUE.

    Attributes:
        pairs: Names of the parameters of these options; each is declared as a list of strings.
    """

    pairs: ClassVar[tuple[str, ...]] = ()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Join the two values of each pair before the parser sees them."""
        names = {name for p in self.params if p.name in self.pairs for name in p.opts}
        return super().parse_args(ctx, list(_joined(args, names, ctx.command_path)))


def split_pairs(values: Iterable[str] | None) -> list[tuple[str, str]]:
    """Return the pairs of an option, as names and values."""
    found = []
    for text in values or ():
        name, _, value = text.partition(_JOINT)
        found.append((name, value))
    return found


def _joined(args: list[str], names: set[str], command: str) -> Iterator[str]:
    tokens = iter(args)
    for token in tokens:
        option, equals, first = token.partition("=")
        if option not in names:
            yield token
            continue
        values = [first] if equals else []
        values += [v for _, v in zip(range(2 - len(values)), tokens, strict=False)]
        if len(values) < 2:
            raise usage(f"option '{option}' takes two values", where=command)
        yield option
        yield _JOINT.join(values)
