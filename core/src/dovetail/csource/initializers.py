"""Initializers of C: braces, designated members, casts, numbers, text and names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dovetail.csource.constants import CONSTANTS

MAX_NESTING = 16

Text = memoryview | bytes  # a mapped file, or part of one

# A brace initializer is a list, text is str, a name is bytes: `x`, `x.v1.id` with members, or
# `M(x)` with a macro.
Value = Any

_TOKEN = re.compile(
    rb"\(\s*+(?:const\s++)?+[A-Za-z_]\w*+(?:\s*+\*)*+\s*+\)"  # a cast, which changes no value
    rb"|([{}]"
    rb'|"(?:[^"\\\n]++|\\.)*+"'
    rb"|\.\s*+[A-Za-z_]\w*+\s*+="
    rb"|[-+]?+[A-Za-z_]\w*+(?:(?:\s*+\.\s*+[A-Za-z_]\w*+)++|\([A-Za-z_]\w*+\))?+"
    rb"|[-+]?+(?:0[xX][0-9a-fA-F]++|(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eE][-+]?\d++)?+)[fFlLuU]*+"
    rb"|[^\s,&])"
)
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f",
            b"v": b"\v"}  # fmt: skip
_OPEN, _CLOSE, _QUOTE, _DOT, _EQUAL = b'{}".='
_LETTERS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_")
_LANGUAGE: dict[bytes, Value] = {
    b"NULL": None,
    b"nullptr": None,
    b"INFINITY": float("inf"),
    b"-INFINITY": float("-inf"),
    b"NAN": float("nan"),
    b"-NAN": float("nan"),
    b"+INFINITY": float("inf"),
    b"true": 1,
    b"false": 0,
}


class Designated:
    """A designated member of an initializer.

    Attributes:
        name: Name of the member.
        value: Its value.
    """

    __slots__ = ("name", "value")

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.value: Value = None


def parse(
    text: Text, start: int, stop: int, constants: Mapping[bytes, int] = CONSTANTS
) -> list[Value]:
    """Return the values of an initializer, or of a list of arguments.

    Args:
        text: The text.
        start: Where the initializer begins in it.
        stop: Where it ends.
        constants: Numbers of names; other names stay.

    Raises:
        ValueError: It is none.
    """
    builder = _Builder(constants)
    for token in _TOKEN.findall(text, start, stop):
        if token:
            builder.take(token)
    return builder.finish()


class _Builder:
    """Builds nested lists of values from tokens."""

    def __init__(self, constants: Mapping[bytes, int]) -> None:
        self._constants = constants
        self._items: list[Value] = []
        self._outer: list[list[Value]] = []
        self._designated: Designated | None = None  # whose value comes next

    def take(self, token: bytes) -> None:
        """Add a token."""
        first = token[0]
        if first == _CLOSE:
            if not self._outer or self._designated is not None:
                raise ValueError("an unexpected '}'")
            self._items = self._outer.pop()
        elif first == _DOT and token[-1] == _EQUAL:
            if self._designated is not None:
                raise ValueError("two names of members")
            self._designated = Designated(token[1:-1].strip())
            self._items.append(self._designated)
        else:
            value = [] if first == _OPEN else self._value(token, first)
            if self._designated is None:
                self._items.append(value)
            else:
                self._designated.value, self._designated = value, None
            if first == _OPEN:
                if len(self._outer) >= MAX_NESTING:
                    raise ValueError("braces are nested too deeply")
                self._outer.append(self._items)
                self._items = value

    def finish(self) -> list[Value]:
        """Return the values."""
        if self._outer or self._designated is not None:
            raise ValueError("an initializer without an end")
        return self._items

    def _value(self, token: bytes, first: int) -> Value:
        if first in _LETTERS:
            value = _LANGUAGE.get(token, token)
            if value is token:
                value = self._constants.get(token, token)
            is_kept = value is token and (b"." in token or b"(" in token)
            return b"".join(token.split()) if is_kept else value
        return _text(token) if first == _QUOTE else _number(token)


def parse_numbers(text: Text, start: int, stop: int) -> list[float]:
    """Return the numbers of an initializer, those of nested braces in one list.

    Raises:
        ValueError: It has something else.
    """
    plain = bytes(text[start:stop]).translate(None, b"{} \t\r\n")
    try:
        return [float(part) for part in plain.rstrip(b",").split(b",")] if plain else []
    except ValueError:
        return list(_flattened(parse(text, start, stop)))


def _flattened(values: list[Value]) -> list[float]:
    found: list[float] = []
    for value in values:
        if isinstance(value, list):
            found += _flattened(value)
        elif isinstance(value, int | float):
            found.append(value)
        else:
            raise ValueError("expected numbers only")
    return found


def _number(token: bytes) -> Value:
    if token in _LANGUAGE:
        return _LANGUAGE[token]
    if len(token) > 400:
        raise ValueError("a number is too long")
    if token[:2] in (b"0x", b"0X"):
        return int(token.rstrip(b"uUlL"), 16)
    plain = token.rstrip(b"fFuUlL")
    try:
        return int(plain)
    except ValueError:
        pass
    try:
        return float(plain)
    except ValueError:
        raise ValueError(f"unexpected {token[:40].decode(errors='replace')!r}") from None


def _text(token: bytes) -> str:
    inner = token[1:-1]
    if not inner and token != b'""':
        raise ValueError("text without an end")
    if b"\\" in inner:
        inner = _ESCAPE.sub(_unescaped, inner)
    try:
        return inner.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"text is not UTF-8: {error.reason}") from error


def _unescaped(found: re.Match[bytes]) -> bytes:
    if found[1] is not None:
        return bytes([int(found[1], 8) & 0xFF])
    if found[2] is not None:
        return bytes([int(found[2], 16)])
    return _ESCAPED.get(found[3], found[3])
