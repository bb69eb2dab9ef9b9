"""The models in files of all kinds."""

from __future__ import annotations

from pathlib import Path

from dovetail.container import ContextFile, Kind, Model, embedded_model, is_container, kind_of


def load_content(file: Path) -> Model:
    """Return the model in a file: of a context binary, the embedded one; else loaded or converted.

    Raises:
        DovetailError: The file cannot be read or converted, or has no model.
    """
    if is_container(file) and kind_of(file) is Kind.CONTEXT:
        return embedded_model(ContextFile.open(file))
    # imported here: a container's summary needs no runtime, frontends or passes
    from dovetail.api import load_model

    return load_model(file)
