"""Shapes written as lists of terms: `[batch, 2 * height, width, channel / groups]`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

import msgspec

from dovetail.errors import OpError

_LONGEST = 500
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,
}


class ShapeText(msgspec.Struct, frozen=True):
    """A shape as terms: integers, names, and their sums, differences, products and quotients.

    Attributes:
        terms: One term for each dimension.
    """

    terms: tuple[ast.expr, ...]

    @classmethod
    def parse(cls, text: str) -> ShapeText | None:
        """Return the terms of a text; None if it is prose."""
        if not (text.startswith("[") and text.endswith("]")) or len(text) > _LONGEST:
            return None
        try:
            body = ast.parse(text, mode="eval").body
            if not isinstance(body, ast.List) or not all(map(_is_term, body.elts)):
                return None
            found = cls(tuple(body.elts))
            return found if len(str(found)) <= _LONGEST else None  # so that it can be parsed again
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None

    @property
    def names(self) -> set[str]:
        """Names that are terms: a known shape has their values."""
        return {term.id for term in self.terms if isinstance(term, ast.Name)}

    @property
    def wanted(self) -> set[str]:
        """All names in the terms."""
        return {n.id for term in self.terms for n in ast.walk(term) if isinstance(n, ast.Name)}

    def learn(self, shape: tuple[int, ...], names: dict[str, int]) -> None:
        """Read the values of names from a known shape."""
        for term, size in zip(self.terms, shape, strict=False):
            if isinstance(term, ast.Name):
                names.setdefault(term.id, size)

    def shape(self, names: Mapping[str, int]) -> tuple[int, ...] | None:
        """Return the shape; None if a name is unknown.

        Raises:
            OpError: A dimension would be negative, or a division is by 0.
        """
        try:
            found = tuple(_value(term, names) for term in self.terms)
        except KeyError:
            return None
        except ZeroDivisionError:
            raise OpError(f"division by 0 in the shape {self}") from None
        if min(found, default=0) < 0:
            raise OpError(f"{self} would be {found}")
        return found

    def __str__(self) -> str:
        return f"[{', '.join(map(ast.unparse, self.terms))}]"


def _is_term(node: ast.expr) -> bool:
    match node:
        case ast.Name():
            return True
        case ast.Constant(value=value):
            return type(value) is int
        case ast.BinOp(left=left, op=op, right=right):
            return type(op) in _OPERATORS and _is_term(left) and _is_term(right)
    return False


def _value(node: ast.expr, names: Mapping[str, int]) -> int:
    match node:
        case ast.Name(id=name):
            return names[name]
        case ast.Constant(value=int(value)):
            return value
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](_value(left, names), _value(right, names))
    raise AssertionError(f"unsupported term {ast.dump(node)}")
