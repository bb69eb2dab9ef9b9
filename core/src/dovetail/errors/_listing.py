"""Counts and lists of names in messages."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with a noun.

    Args:
        number: The number.
        noun: The noun in the singular.
        plural: The noun for all numbers but 1; by default with an s.
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def listed(texts: Sequence[str], most: int) -> str:
    """Return texts separated by commas: the first ones, and how many more there are.

    Args:
        texts: The texts.
        most: Maximum number of texts that are shown.
    """
    more = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {more} more" if more > 0 else "")
