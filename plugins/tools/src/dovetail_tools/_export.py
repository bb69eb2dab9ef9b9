"""The work of `dovetail export`, after its options are read."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from dovetail.api import export
from dovetail.api.exporting import find_exporter
from dovetail.cli.exporter_options import exporter_options
from dovetail.cli.output import current_output, show_differences


def export_file(
    source: Path, target: Path, format: str, graph: str | None, texts: Sequence[str]
) -> None:
    """Export a model, print a line about the result, and list the differences.

    Args:
        source: A model that can be loaded or converted.
        target: Path of the exported model.
        format: Name of the exporter.
        graph: Name of the graph; None if the model has one graph.
        texts: Options of the exporter as NAME=VALUE.

    Raises:
        DovetailError: The model cannot be loaded or exported, or the file not written.
    """
    start = time.perf_counter()
    options = exporter_options(find_exporter(format), texts)
    notes = export(source, target, format, options, graph=graph)
    seconds = time.perf_counter() - start
    output, size = current_output(), target.stat().st_size
    output.message(f"{source} -> {target}: {size / 1e6:.2f} MB, {seconds:.2f} s")
    show_differences(notes)
    if output.json:
        data = {
            "source": str(source),
            "model": str(target),
            "notes": list(notes),
            "file_bytes": size,
            "seconds": seconds,
        }
        output.data(data, "")
