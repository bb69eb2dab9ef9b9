"""`dovetail inspect`: the content of a model or container file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from dovetail.cli.output import current_output, table
from dovetail.container import GraphSummary, Summary, TensorSummary, is_container, summarize
from dovetail.container import verify as find_damage
from dovetail.errors import ConfigError, ContainerError
from dovetail.ir import DataFormat, Graph, MemoryType, Tensor, to_text
from dovetail.ir.text import encoding_text, shape_texts

if TYPE_CHECKING:
    from dovetail.api import Model

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_CONTAINER_SUFFIXES = (".dvt", ".bin")


@app.command()
def inspect(
    file: Annotated[Path, typer.Argument(help="A .dvt file, or a model that can be converted.")],
    verify: Annotated[
        bool, typer.Option("--verify", help="Check every byte of a .dvt file first.")
    ] = False,
    text: Annotated[bool, typer.Option("--text", help="Print the graphs in full.")] = False,
    macs: Annotated[
        bool,
        typer.Option("--macs", help="Show the multiply-accumulates of each node and in total."),
    ] = False,
) -> None:
    """Show the content of a model or container file: graphs, inputs, outputs and numbers of ops.

    Only the manifest of a .dvt file is read, unless --verify, --text or --macs is given. Other
    models are converted, and the result is shown.
    """
    contained = file.suffix.lower() in _CONTAINER_SUFFIXES or is_container(file)
    if verify:
        if not contained:
            raise ConfigError(
                "the file is not a container, so --verify cannot check it",
                code="USAGE",
                where=str(file),
            )
        _verify(file)
    if text and macs:
        raise ConfigError(
            "--text and --macs are mutually exclusive",
            code="USAGE",
            where="dovetail inspect",
            hint="inspect the file twice",
        )
    if macs:
        # imported here: only this option needs op packages
        from dovetail.cli._work import show_macs

        show_macs(file, _load(file))
        return
    if text:
        graphs = _load(file).graphs
        texts = {name: to_text(graph) for name, graph in graphs.items()}
        current_output().data({"file": str(file), "text": texts}, "\n".join(texts.values()))
    elif contained:
        _show_container(file, summarize(file), verified=verify)
    else:
        _show_model(file, _load(file))


def _load(file: Path) -> Model:
    # imported here: a container's summary needs no runtime, frontends or passes
    from dovetail.api import load_model

    return load_model(file)


def _verify(file: Path) -> None:
    if damage := find_damage(file):
        raise ContainerError(
            f"the file is damaged: {len(damage)} fault(s)",
            where=str(file),
            hint="create or fetch the file again",
            problems=damage,
        )
    current_output().message(f"{file}: all checksums are correct")


def _show_container(file: Path, summary: Summary, *, verified: bool) -> None:
    producer = summary.producer
    source = f" from {producer.source}" if producer.source else ""
    packages = ", ".join(f"{n} {v}" for n, v in summary.op_packages.items()) or "none"
    head = [
        f"{file}: {summary.kind}, format {_version(summary)}, {summary.file_bytes:,} bytes",
        f"written by {producer.tool} {producer.version}{source}",
        f"op packages: {packages}",
        f"blobs: {summary.blobs}, {summary.blob_bytes:,} bytes"
        f" ({summary.shared_blob_bytes:,} of them shared)",
    ]
    data = {"file": str(file), "verified": verified, **msgspec.to_builtins(summary)}
    current_output().data(data, _text(head, summary.graphs))


def _version(summary: Summary) -> str:
    minor = f".{summary.format_minor}" if summary.format_minor else ""
    requires = f" (requires {', '.join(summary.requires)})" if summary.requires else ""
    return f"{summary.format_version}{minor}{requires}"


def _show_model(file: Path, model: Model) -> None:
    graphs = tuple(_summary(graph) for graph in model.graphs.values())
    packages = ", ".join(f"{n} {v}" for n, v in model.op_packages.items()) or "none"
    head = [f"{file}: shown as converted", f"op packages: {packages}"]
    data: dict[str, Any] = {
        "file": str(file),
        "op_packages": model.op_packages,
        "graphs": msgspec.to_builtins(graphs),
    }
    current_output().data(data, _text(head, graphs))


def _summary(graph: Graph) -> GraphSummary:
    params = (p for node in graph.nodes for p in node.params.values() if isinstance(p, Tensor))
    static = [t for t in (*graph.tensors.values(), *params) if t.data is not None]
    ops = Counter(f"{node.package}::{node.op_type}" for node in graph.nodes)
    return GraphSummary(
        graph.name,
        tuple(_tensor(t) for t in graph.inputs),
        tuple(_tensor(t) for t in graph.outputs),
        dict(sorted(ops.items())),
        len(graph.nodes),
        len(graph.tensors),
        sum(t.data.nbytes for t in static if t.data is not None),
    )


def _tensor(tensor: Tensor) -> TensorSummary:
    encoding = None if tensor.encoding is None else encoding_text(tensor.encoding)
    return TensorSummary.of(tensor, encoding)


def _text(head: list[str], graphs: tuple[GraphSummary, ...]) -> str:
    return "\n\n".join(["\n".join(head), *(_graph_text(g) for g in graphs)])


def _graph_text(graph: GraphSummary) -> str:
    rows = [
        [use, t.name, t.dtype, _shape(t), t.encoding or "", _storage(t)]
        for use, tensors in (("input", graph.inputs), ("output", graph.outputs))
        for t in tensors
    ]
    headings = ["USE", "TENSOR", "DTYPE", "SHAPE", "ENCODING", "STORAGE"]
    if not any(storage for *_, storage in rows):  # the usual case
        headings, rows = headings[:-1], [row[:-1] for row in rows]
    ops = table(("OP", "NODES"), graph.ops.items())
    return "\n".join(
        [
            f"graph {graph.name}: {graph.nodes} nodes, {graph.tensors} tensors,"
            f" {graph.static_bytes:,} bytes of static data",
            "",
            table(headings, rows),
            "",
            ops,
        ]
    )


def _shape(tensor: TensorSummary) -> str:
    return "x".join(shape_texts(tensor.shape, tensor.dynamic)) or "scalar"


def _storage(tensor: TensorSummary) -> str:
    """Return data format and memory type unless they are the usual ones."""
    found = (tensor.data_format, tensor.memory_type)
    usual = (DataFormat.DENSE.name, MemoryType.RAW.name)
    return " ".join(name for name, default in zip(found, usual, strict=True) if name != default)
