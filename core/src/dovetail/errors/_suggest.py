"""Did-you-mean: the sentence every refusal of an unknown name ends with."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """Return the valid name most like `name`, or None where none is near."""
    import difflib  # imported here: only a refusal needs it

    folded = {candidate.casefold(): candidate for candidate in valid}
    found = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    return folded[found[0]] if found else None


def suggest_name(name: str, valid: Iterable[str]) -> str:
    """Return a hint for a name that matches nothing: the nearest one, or the whole list."""
    choices = sorted(set(valid))
    near = nearest(name, choices)
    if near is not None:
        return f"did you mean '{near}'?"
    if not choices:
        return "there is none to choose from"
    shown = ", ".join(choices[:12])
    return f"valid names: {shown}" + (f" and {len(choices) - 12} more" if len(choices) > 12 else "")
