"""Suggestions of valid names, for errors about unknown ones."""

from __future__ import annotations

from collections.abc import Iterable

from dovetail.errors._listing import listed

_SHOWN = 12


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """Return the valid name most similar to `name`, or None if none is similar."""
    import difflib  # imported here: only errors need it

    folded = {candidate.casefold(): candidate for candidate in valid}
    found = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    return folded[found[0]] if found else None


def suggest_name(name: object, valid: Iterable[str]) -> str:
    """Return a hint for an unknown name: the nearest valid name, or a list of all.

    What callers of the Python API pass as a name may be any object.
    """
    choices = sorted(set(valid))
    near = nearest(str(name), choices)
    if near is not None:
        return f"did you mean '{near}'?"
    if not choices:
        return "no valid names exist"
    return f"valid names: {listed(choices, _SHOWN)}"
