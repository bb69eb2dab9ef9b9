"""Export of a model to a file of another format."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

from dovetail.api.conversion import PathLike, load_model
from dovetail.arguments import check_arguments
from dovetail.container import Model
from dovetail.errors import ConfigError, suggest_name
from dovetail.files import check_suffix
from dovetail.ir import Graph
from dovetail.ops.exporter import Exporter, ExportOptions
from dovetail.plugins import load as load_plugin

GROUP = "dovetail.exporters"
DEFAULT = "onnx-qdq"


@check_arguments
def export(
    model: Model | PathLike,
    path: PathLike,
    format: str = DEFAULT,
    options: ExportOptions | None = None,
    *,
    graph: str | None = None,
) -> tuple[str, ...]:
    """Write a model in another format.

    Args:
        model: A `Model`, or a file that can be loaded or converted. It is not changed.
        path: The file to write; it appears only once it is complete.
        format: Name of an installed exporter.
        options: Options of the export.
        graph: Name of the graph if the model has several.

    Returns:
        The differences in structure or meaning between the file and the graph, a sentence each.

    Raises:
        ConfigError: The path has the wrong suffix or is that of the model itself, or there are
            several graphs and none is named.
        PluginError: The exporter is not installed, or it is broken.
        UnsupportedOpError: The format cannot express some nodes; all are listed.
        ContainerError: The file cannot be written.
    """
    exporter = cast("type[Exporter]", load_plugin(GROUP, format))()
    target = Path(path)
    check_suffix(target, exporter.suffix, f"{format} writes {exporter.suffix} files", "path")
    if not isinstance(model, Model):
        source = Path(model)
        if os.path.exists(target) and os.path.exists(source) and target.samefile(source):
            raise _usage(
                "the exported model would overwrite its source",
                f"path {target}",
                "choose another name",
            )
        model = load_model(source)
    return exporter.export(_chosen(model, graph), target, options or ExportOptions())


def _chosen(model: Model, name: str | None) -> Graph:
    graphs = model.graphs
    if name is None and len(graphs) == 1:
        return next(iter(graphs.values()))
    if name is None:
        raise _usage(
            f"the model has {len(graphs)} graphs, but only one can be exported at a time",
            "graph",
            f"name one of {', '.join(graphs)}",
        )
    if name not in graphs:
        raise _usage(f"graph '{name}' not found in the model", "graph", suggest_name(name, graphs))
    return graphs[name]


def _usage(message: str, where: str, hint: str) -> ConfigError:
    return ConfigError(message, code="USAGE", where=where, hint=hint)
