"""Layout of expressions as by a formatter: on one line, else one item per line."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail_tools._generator._text import WIDTH, width

_STEP = " " * 4
_ROUND = ("(", ")")


@dataclass(frozen=True, slots=True)
class Group:
    """A call, tuple or list.

    Attributes:
        head: Text before the bracket: a function, a keyword, both or nothing.
        brackets: The opening and the closing bracket.
        items: The items.
    """

    head: str
    brackets: tuple[str, str]
    items: tuple[Part, ...]


Part = str | Group


def call(function: str, *items: Part) -> Group:
    """Return a call."""
    return Group(function, _ROUND, items)


def sequence(*items: Part, head: str = "") -> Group:
    """Return a tuple; with the head `name=`, that of a keyword."""
    return Group(head, _ROUND, items if len(items) != 1 else (*items, ""))


def array(*items: Part) -> Group:
    """Return a list."""
    return Group("", ("[", "]"), items)


def laid_out(part: Part, indent: str = "", before: str = "", after: str = "") -> list[str]:
    """Return the lines of an expression.

    Args:
        part: The expression.
        indent: Indentation of each line.
        before: Text before the expression on its first line.
        after: Text after the expression on its last line.
    """
    line = f"{indent}{before}{_flat(part)}{after}"
    if isinstance(part, str) or not part.items or width(line) <= WIDTH:
        return [line]
    opening, closing = part.brackets
    items = [i for i in part.items if i]
    inner = [line for item in items for line in laid_out(item, indent + _STEP, after=",")]
    return [f"{indent}{before}{part.head}{opening}", *inner, f"{indent}{closing}{after}"]


def _flat(part: Part) -> str:
    if isinstance(part, str):
        return part
    opening, closing = part.brackets
    # a single item without a comma: a tuple of one
    inner = ", ".join(map(_flat, part.items)).rstrip() if part.items else ""
    return f"{part.head}{opening}{inner}{closing}"
