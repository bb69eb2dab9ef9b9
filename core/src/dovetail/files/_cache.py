"""The folder of what can be computed again, below the user's cache folder."""

from __future__ import annotations

import os
from pathlib import Path

_VARIABLE = "DOVETAIL_CACHE"  # another folder; empty for none


def user_cache(name: str) -> Path | None:
    """Return a folder of the user's cache, which is created; None if nothing can be kept.

    It is `$DOVETAIL_CACHE`, or `dovetail` in `$XDG_CACHE_HOME` or `~/.cache`, and there `name`. An
    empty `DOVETAIL_CACHE` keeps nothing.

    Args:
        name: Name of a part of the cache.
    """
    given = os.environ.get(_VARIABLE)
    if given == "":
        return None
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        found = (Path(given) if given else home / "dovetail") / name
        found.mkdir(parents=True, exist_ok=True, mode=0o700)
    except (OSError, RuntimeError):  # no home, or one that cannot be written
        return None
    return found
