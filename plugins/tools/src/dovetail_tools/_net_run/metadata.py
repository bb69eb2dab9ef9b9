"""execution_metadata.yaml: the contents of a run's files, without times and paths."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path

from dovetail.cli.inputs.raw_files import RawFormat
from dovetail.files.config_text import yaml_scalar
from dovetail.ir import Shape, Tensor
from dovetail_tools._net_run.output_files import Files

NAME = "execution_metadata.yaml"


def graph_metadata(
    name: str,
    folder: str,
    results: int,
    forms: Mapping[str, RawFormat],
    batch: int,
    files: Files,
) -> list[str]:
    """Return the lines of one graph.

    Args:
        name: Name of the graph.
        folder: Folder of its results below the output folder; empty for the output folder.
        results: Number of results.
        forms: Formats of its inputs.
        batch: Lines of the list per inference; a result has one of as many parts.
        files: Files of its outputs.
    """
    lines = [f"  - graph_name: {yaml_scalar(name)}"]
    lines += [f"    folder: {yaml_scalar(folder or '.')}", f"    results: {results}"]
    lines += ["    inputs:" if forms else "    inputs: []"]
    for form in forms.values():
        lines += _tensor(form.tensor, _part(form.tensor.shape, batch), form)
    lines += ["    outputs:" if files else "    outputs: []"]
    for file in chain.from_iterable(files.values()):
        lines += _tensor(file.form.tensor, _part(file.form.tensor.shape, batch), file.form)
        lines += [f"        file: {yaml_scalar(file.name)}"]
    return lines


def write_metadata(folder: Path, backend: str, graphs: Iterable[list[str]]) -> None:
    """Write the file.

    Args:
        folder: The folder to write to.
        backend: Name of the backend.
        graphs: The lines of `graph_metadata` for each graph.

    Raises:
        OSError: The file cannot be written.
    """
    lines = [f"backend: {yaml_scalar(backend)}", "graphs:", *(line for g in graphs for line in g)]
    (folder / NAME).write_text("\n".join(lines) + "\n", "utf-8")


def _tensor(tensor: Tensor, in_file: Shape, form: RawFormat) -> list[str]:
    stored = f"QNN_DATATYPE_{tensor.dtype.name}"
    origin = []
    if tensor.source != tensor.name:
        origin.append(f"        source_name: {yaml_scalar(tensor.source)}")
    if tensor.source_perm is not None:
        # for each axis, the axis of the source tensor
        origin.append(f"        source_axes: {json.dumps(tensor.source_perm)}")
    return [
        f"      - tensor_name: {yaml_scalar(tensor.name)}",
        f"        datatype: {yaml_scalar(stored)}",
        *origin,
        f"        dimensions: {json.dumps(tensor.shape)}",
        f"        file_datatype: {yaml_scalar(stored if form.native else 'QNN_DATATYPE_FLOAT_32')}",
        f"        file_dimensions: {json.dumps(in_file)}",
    ]


def _part(shape: Shape, batch: int) -> Shape:
    return (1, *shape[1:]) if batch > 1 else shape
