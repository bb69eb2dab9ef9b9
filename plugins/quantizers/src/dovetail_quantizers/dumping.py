"""Encodings files of a quantized model, next to its file."""

from __future__ import annotations

from pathlib import Path

from dovetail.container import Model
from dovetail.files import safe_name
from dovetail_quantizers.files import encodings_of, write_encodings

_VERSION = "1.0.0"


def dump_model_encodings(model: Model, target: Path) -> tuple[Path, ...]:
    """Write the encodings of each graph, in the names of the user's model; return the paths.

    Raises:
        ContainerError: A file cannot be written.
    """
    written = []
    for name, graph in model.graphs.items():
        path = target.with_name(f"{target.stem}_{safe_name(name)}.encodings")
        write_encodings(encodings_of(graph, _VERSION), path, _VERSION, lossy=True)
        written.append(path)
    return tuple(written)
