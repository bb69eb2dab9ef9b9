"""Names as users spell them: those of the graph, and those that the SDK's tools write for them."""

from __future__ import annotations

from collections.abc import Iterable

from dovetail.files import identifier, safe_name


def spellings(names: Iterable[str]) -> dict[str, str]:
    """Return names by their accepted spellings.

    A name is spelled as it is, as in the name of an output file, or as in the C++ and JSON of the
    converters; the last two only if no other name is spelled so.

    Args:
        names: Names of the objects that a user can mean.
    """
    exact = {name: name for name in names}
    others: dict[str, set[str]] = {}
    for name in exact:
        for spelling in (safe_name(name), identifier(name)):
            others.setdefault(spelling, set()).add(name)
    return exact | {
        spelling: meant.pop()
        for spelling, meant in others.items()
        if spelling not in exact and len(meant) == 1
    }
