"""Written models of commands."""

from __future__ import annotations

from pathlib import Path

from dovetail.api.exporting import ModelFile
from dovetail.cli.output import show_differences
from dovetail.container import Model
from dovetail.files import created_folder, recorded_writes


def write_model(file: ModelFile, model: Model) -> tuple[Path, ...]:
    """Write a model, show how the file differs, and return all written files, the model first.

    Its folder is created if it is missing.

    Raises:
        DovetailError: The file cannot be written, or its format cannot express the model.
    """
    with created_folder(file.path.parent), recorded_writes() as written:
        notes = file.write(model)
    show_differences(notes)
    return tuple(dict.fromkeys((file.path, *written)))
