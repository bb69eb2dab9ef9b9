"""`dovetail inspect`: the content of a model or container file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from dovetail.cli.graph_text import graph_text, summary_lines
from dovetail.cli.layers import Order, show_layers
from dovetail.cli.loading import load_content
from dovetail.cli.output import current_output
from dovetail.container import (
    ContextFile,
    GraphSummary,
    Kind,
    Summary,
    is_container,
    kind_of,
    summarize,
)
from dovetail.container import verify as find_damage
from dovetail.errors import ConfigError, ContainerError, counted
from dovetail.ir import to_text
from dovetail.plugins.models import model_path

if TYPE_CHECKING:
    from dovetail.api import Model

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_CONTAINER_SUFFIXES = (".dvt", ".bin")


@app.command()
def inspect(
    file: Annotated[
        Path,
        typer.Argument(
            help="A .dvt file, a context binary or section, a model that can be converted, or "
            "another file or folder that a plugin knows, such as a trace."
        ),
    ],
    verify: Annotated[
        bool, typer.Option("--verify", help="Check every byte of a container first.")
    ] = False,
    text: Annotated[bool, typer.Option("--text", help="Print the graphs in full.")] = False,
    layers: Annotated[
        bool,
        typer.Option(
            "--layers",
            help="Show each node: op, shapes, parameters, multiply-accumulates, bytes, encodings.",
        ),
    ] = False,
    sort: Annotated[
        Order | None,
        typer.Option(help="Order of the layers; by size, the largest first.", show_default="order"),
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Show how well a context binary or section suits this backend, with each reason.",
        ),
    ] = None,
    similarity: Annotated[
        bool,
        typer.Option(
            "--similarity",
            help="Show the cosine similarity of weights of the same name that graphs of a context "
            "binary do not share.",
        ),
    ] = False,
) -> None:
    """Show the content of a model or container file: graphs, inputs, outputs and numbers of ops.

    Only the manifest of a .dvt file is read, and also the plans and models of a context binary,
    unless --verify, --text, --layers or --similarity is given. Other models are converted, and the
    result is shown.
    """
    chosen = {
        "--verify": verify,
        "--text": text,
        "--layers": layers,
        "--sort": sort is not None,
        "--backend or --similarity": backend is not None or similarity,
    }
    _require_one(chosen)
    file = model_path(file)
    is_folder = os.path.isdir(file)  # pathlib's raises if a name is too long
    contained = not is_folder and is_container(file)
    if not contained and _show_other(file, [name for name, given in chosen.items() if given]):
        return
    # a damaged one is reported as a container
    contained = contained or (not is_folder and file.suffix.lower() in _CONTAINER_SUFFIXES)
    if verify:
        if not contained:
            raise ConfigError(
                "the file is not a container, so --verify cannot check it",
                code="USAGE",
                where=str(file),
            )
        _verify(file)
    if layers:
        show_layers(file, load_content(file), sort or Order.NODES)
    elif text:
        graphs = load_content(file).graphs
        texts = {name: to_text(graph) for name, graph in graphs.items()}
        current_output().data({"file": str(file), "text": texts}, "\n".join(texts.values()))
    elif contained and (kind := kind_of(file)) is not Kind.MODEL:
        # imported here: a model's summary needs no runtime
        from dovetail.cli.context_report import show_context

        opened = ContextFile.open(file, section=kind is Kind.SECTION)
        show_context(file, opened, backend, similarity=similarity, verified=verify)
    elif backend is not None or similarity:
        raise ConfigError(
            "--backend and --similarity are for context binaries", code="USAGE", where=str(file)
        )
    elif contained:
        _show_container(file, summarize(file), verified=verify)
    else:
        _show_model(file, load_content(file))


def _require_one(chosen: Mapping[str, bool]) -> None:
    """Raise if options are mutually exclusive, or lack another one."""
    if sum(chosen[name] for name in ("--text", "--layers", "--backend or --similarity")) > 1:
        raise ConfigError(
            "--text, --layers, and --backend or --similarity are mutually exclusive",
            code="USAGE",
            where="dovetail inspect",
            hint="inspect the file twice",
        )
    if chosen["--sort"] and not chosen["--layers"]:
        raise ConfigError(
            "--sort orders layers, which are not shown",
            code="USAGE",
            where="dovetail inspect",
            hint="add --layers",
        )


def _show_other(file: Path, options: Sequence[str]) -> bool:
    """Show a file that a plugin's inspector recognises; return whether one does.

    Raises:
        ConfigError: There are options, which are for models and containers.
    """
    # imported here: a container's summary needs no plugins
    from dovetail.api.inspection import find_inspector

    inspector = find_inspector(file)
    if inspector is None:
        return False
    if options:
        raise ConfigError(
            f"{', '.join(options)} cannot be used with this file, which is neither a model nor a "
            f"container; the inspector '{inspector.name}' shows it",
            code="USAGE",
            where=str(file),
        )
    summary = inspector.summary(file)
    current_output().data({"file": str(file), "kind": inspector.name, **summary.data}, summary.text)
    return True


def _verify(file: Path) -> None:
    if damage := find_damage(file):
        raise ContainerError(
            f"the file is damaged: {counted(len(damage), 'fault')}",
            where=str(file),
            hint="create or fetch the file again",
            problems=damage,
        )
    current_output().message(f"{file}: all checksums are correct")


def _show_container(file: Path, summary: Summary, *, verified: bool) -> None:
    data = {"file": str(file), "verified": verified, **msgspec.to_builtins(summary)}
    current_output().data(data, _text(summary_lines(file, summary), summary.graphs))


def _show_model(file: Path, model: Model) -> None:
    graphs = tuple(map(GraphSummary.of, model.graphs.values()))
    packages = ", ".join(f"{n} {v}" for n, v in model.op_packages.items()) or "none"
    head = [f"{file}: shown as converted", f"op packages: {packages}"]
    data: dict[str, Any] = {
        "file": str(file),
        "op_packages": model.op_packages,
        "graphs": msgspec.to_builtins(graphs),
    }
    current_output().data(data, _text(head, graphs))


def _text(head: list[str], graphs: tuple[GraphSummary, ...]) -> str:
    return "\n\n".join(["\n".join(head), *map(graph_text, graphs)])
