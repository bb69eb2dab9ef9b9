"""Models of installed dists: an entry point of `dovetail.models` loads the path of each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

from dovetail.errors import FrontendError, nearest
from dovetail.plugins.registry import load, names

GROUP = "dovetail.models"


def model_path(given: str | os.PathLike[str]) -> Path:
    """Return the path of a model file, which may be given by the name of an installed model.

    A file with that name comes first.

    Args:
        given: The path, or the name of an entry point.

    Raises:
        FrontendError: There is neither, and an installed model has a similar name.
        PluginError: The installed model is broken.
    """
    path = Path(given)
    name = str(path)
    if path.name != name or path.suffix or os.path.lexists(path):
        return path
    known = names(GROUP)
    if name in known:
        return Path(cast("os.PathLike[str]", load(GROUP, name)))
    if near := nearest(name, known):
        raise FrontendError(
            f"neither a file nor an installed model has the name '{name}'",
            code="FILE_UNREADABLE",
            where=name,
            hint=f"did you mean '{near}'?",
        )
    return path
