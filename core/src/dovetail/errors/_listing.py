"""Lists of names in messages."""

from __future__ import annotations

from collections.abc import Sequence


def listed(texts: Sequence[str], most: int) -> str:
    """Return texts separated by commas: the first ones, and how many more there are.

    Args:
        texts: The texts.
        most: Maximum number of texts that are shown.
    """
    more = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {more} more" if more > 0 else "")
