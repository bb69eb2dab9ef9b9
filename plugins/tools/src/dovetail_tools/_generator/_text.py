"""Escaping of foreign text in generated files: literals, docstrings, lines.

All text of a definition reaches a generated module through these functions, or is a checked name.
"""

from __future__ import annotations

import math
import re
import textwrap
import unicodedata
from collections.abc import Iterable
from typing import Any

WIDTH = 100
_SENTENCE = re.compile(r"(.+?[.!?])(?:\s+|$)")


def width(text: str) -> int:
    """Return the width of a text as formatters count it: wide characters take two columns."""
    return sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def one_line(text: str) -> str:
    """Return a text as one line, with invisible characters escaped."""
    joined = " ".join(text.split())
    return "".join(c if c.isprintable() else _escape(c) for c in joined)


def literal(value: Any) -> str:
    """Return a number, bool, text or None as formatted Python code."""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def _quoted(text: str) -> str:
    body = "".join(_escape(c) if c == "\\" or not c.isprintable() else c for c in text)
    if body.count('"') > body.count("'"):
        return "'" + body.replace("'", "\\'") + "'"
    return '"' + body.replace('"', '\\"') + '"'


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def docstring(summary: str, paragraphs: Iterable[Iterable[str]], indent: str) -> list[str]:
    """Return the lines of a docstring.

    Args:
        summary: First line, foreign text like the rest.
        paragraphs: Paragraphs of entries, which are wrapped separately; empty ones are omitted.
        indent: Indentation of each line.
    """
    body: list[str] = []
    for paragraph in paragraphs:
        wrapped = [line for entry in paragraph if entry for line in _wrapped(entry, indent)]
        body += ["", *wrapped] if wrapped else []
    first = _prose(summary)
    # a raw docstring, since a backslash in a formula is not an escape
    quotes = 'r"""' if any("\\" in line for line in (first, *body)) else '"""'
    if not body:
        return [f'{indent}{quotes}{first}"""']
    return [f"{indent}{quotes}{first}", *body, f'{indent}"""']


def summary_of(text: str, otherwise: str) -> tuple[str, str]:
    """Return the first sentence of a text for the first line of a docstring, and the rest.

    Args:
        text: A description.
        otherwise: The first line if the sentence is missing or too long.
    """
    text = one_line(text)
    found = _SENTENCE.match(text if text.endswith((".", "!", "?")) else f"{text}.")
    if not text or found is None or width(found[1]) > WIDTH - 16:
        return otherwise, text
    return found[1], text[found.end() :]


def _wrapped(entry: str, indent: str) -> list[str]:
    text = _prose(entry)
    # wide characters count twice for formatters, once for textwrap
    columns = WIDTH if text.isascii() else WIDTH // 2
    return textwrap.wrap(
        text, columns, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )


def _prose(text: str) -> str:
    """Return text that cannot end a docstring: double quotes become single ones."""
    return one_line(text).replace('"', "'")
