"""The work of `dovetail export`, after its options are read."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from dovetail.api import export
from dovetail.api.exporting import exporter_for
from dovetail.cli.exporter_options import exporter_options
from dovetail.cli.output import current_output, named_files, show_differences
from dovetail.files import created_folder, recorded_writes


def export_file(
    source: Path, target: Path, format: str | None, graph: str | None, texts: Sequence[str]
) -> None:
    """Export a model, print a line about the result, and list the differences.

    Args:
        source: A model that can be loaded or converted.
        target: Path of the exported model.
        format: Name of the exporter; None to find it by the suffix of the file.
        graph: Name of the graph; None if the model has one graph.
        texts: Options of the exporter as NAME=VALUE.

    Raises:
        DovetailError: The model cannot be loaded or exported, or the file not written.
    """
    start = time.perf_counter()
    exporter = exporter_for(target, format, "--output-path")
    options = exporter_options(exporter, texts)
    with created_folder(target.parent), recorded_writes() as written:
        notes = export(source, target, format or exporter.name, options, graph=graph)
    seconds = time.perf_counter() - start
    files = list(dict.fromkeys((target, *written)))
    output, size = current_output(), sum(file.stat().st_size for file in files)
    output.message(f"{source} -> {named_files(files)}: {size / 1e6:.2f} MB, {seconds:.2f} s")
    show_differences(notes)
    if output.json:
        data = {
            "source": str(source),
            "model": str(target),
            "files": [str(file) for file in files],
            "notes": list(notes),
            "file_bytes": size,
            "seconds": seconds,
        }
        output.data(data, "")
