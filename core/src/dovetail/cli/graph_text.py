"""Text of summaries of containers and graphs, for `dovetail inspect`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from dovetail.cli.output import table
from dovetail.container import GraphSummary, PreparedSummary, Summary, TensorSummary
from dovetail.errors import counted
from dovetail.ir import DataFormat, MemoryType
from dovetail.ir.text import shape_texts


def summary_lines(file: Path, summary: Summary) -> list[str]:
    """Return the first lines on a container: kind, version, producer, op packages and blobs."""
    producer = summary.producer
    source = f" from {producer.source}" if producer.source else ""
    packages = ", ".join(f"{n} {v}" for n, v in summary.op_packages.items()) or "none"
    return [
        f"{file}: {summary.kind}, format {_version(summary)}, {summary.file_bytes:,} bytes",
        f"written by {producer.tool} {producer.version}{source}",
        f"op packages: {packages}",
        f"blobs: {summary.blobs}, {summary.blob_bytes:,} bytes"
        f" ({summary.shared_blob_bytes:,} of them shared)",
    ]


def graph_text(graph: GraphSummary) -> str:
    """Return the text of a graph: sizes, inputs and outputs, numbers of ops."""
    ends = [("input", graph.inputs), ("output", graph.outputs)]
    if isinstance(graph, PreparedSummary):
        lines, is_described = list(_prepared_lines(graph)), graph.has_model
        ends.append(("updated", graph.updated))
    else:
        lines, is_described = [f"graph {graph.name}: {_model_text(graph)}"], True
    parts = ["\n".join(lines), tensor_table(ends)]
    if is_described:
        parts.append(table(("OP", "NODES"), graph.ops.items()))
    return "\n\n".join(parts)


def tensor_table(uses: Iterable[tuple[str, Iterable[TensorSummary]]]) -> str:
    """Return a table of tensors, each with its use."""
    rows = [
        [use, t.name, t.dtype, _shape(t), t.encoding or "", _storage(t)]
        for use, tensors in uses
        for t in tensors
    ]
    headings = ["USE", "TENSOR", "DTYPE", "SHAPE", "ENCODING", "STORAGE"]
    if not any(storage for *_, storage in rows):  # the usual case
        headings, rows = headings[:-1], [row[:-1] for row in rows]
    return table(headings, rows)


def settings_text(settings: Mapping[str, object]) -> str:
    """Return settings by name as text."""
    return ", ".join(f"{name} {value}" for name, value in settings.items()) or "none"


def _prepared_lines(graph: PreparedSummary) -> Iterable[str]:
    model = _model_text(graph) if graph.has_model else "no model"
    yield f"graph {graph.name}: {model}"
    yield (
        f"prepared: {graph.plan_bytes:,} bytes of plan, {graph.blob_bytes:,} bytes of blobs"
        f" ({graph.shared_blob_bytes:,} of them shared), {graph.memory_bytes:,} bytes of memory"
    )
    yield f"digest: {graph.digest}"
    for what, names in (
        ("context tensors", graph.context_tensors),
        ("observed", graph.observed),
        ("added outputs", graph.added_outputs),
    ):
        if names:
            yield f"{what}: {', '.join(names)}"
    if graph.config:
        yield f"settings: {settings_text(graph.config)}"


def _model_text(graph: GraphSummary) -> str:
    sizes = counted(graph.nodes, "node"), counted(graph.tensors, "tensor")
    return f"{', '.join(sizes)}, {graph.static_bytes:,} bytes of static data"


def _version(summary: Summary) -> str:
    minor = f".{summary.format_minor}" if summary.format_minor else ""
    requires = f" (requires {', '.join(summary.requires)})" if summary.requires else ""
    return f"{summary.format_version}{minor}{requires}"


def _shape(tensor: TensorSummary) -> str:
    return "x".join(shape_texts(tensor.shape, tensor.dynamic)) or "scalar"


def _storage(tensor: TensorSummary) -> str:
    """Return data format and memory type unless they are the usual ones."""
    found = (tensor.data_format, tensor.memory_type)
    usual = (DataFormat.DENSE.name, MemoryType.RAW.name)
    return " ".join(name for name, default in zip(found, usual, strict=True) if name != default)
