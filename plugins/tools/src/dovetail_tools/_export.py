"""The work of `dovetail export`, after its options are read."""

from __future__ import annotations

import time
from pathlib import Path

from dovetail.api import export
from dovetail.cli.output import current_output, show_differences
from dovetail.ops.exporter import ExportOptions


def export_file(
    source: Path, target: Path, format: str, graph: str | None, *, external_data: bool
) -> None:
    """Export a model, print a line about the result, and list the differences.

    Args:
        source: A model that can be loaded or converted.
        target: Path of the exported model.
        format: Name of the exporter.
        graph: Name of the graph; None if the model has one graph.
        external_data: Whether weights go to a separate file in any case.

    Raises:
        DovetailError: The model cannot be loaded or exported, or the file not written.
    """
    start = time.perf_counter()
    options = ExportOptions(external_data=external_data)
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
