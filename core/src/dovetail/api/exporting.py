"""Models in files: containers, and the formats of exporters."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import msgspec

from dovetail.api.loading import SUFFIX, load_model
from dovetail.api.plugin_options import options_for
from dovetail.arguments import check_arguments
from dovetail.container import Model
from dovetail.errors import ConfigError, suggest_name
from dovetail.files import PathLike, check_suffix, with_suffix
from dovetail.ir import Graph
from dovetail.ops.exporter import Exporter, ExportOptions, ModelExporter
from dovetail.plugins import load as load_plugin
from dovetail.plugins import load_all

GROUP = "dovetail.exporters"
DEFAULT = "onnx-qdq"


@check_arguments
def export(
    model: Model | PathLike,
    path: PathLike,
    format: str | None = None,
    options: ExportOptions | None = None,
    *,
    graph: str | None = None,
) -> tuple[str, ...]:
    """Write a model in another format.

    Args:
        model: A `Model`, or a file that can be loaded or converted. It is not changed.
        path: The file to write; it appears only once it is complete.
        format: Name of an installed exporter; by default the one that has the path's suffix, of
            several the one for ONNX with quantization (`onnx-qdq`).
        options: An `ExportOptions`, or an object of the exporter's own `options_type`. Version and
            copyright that they leave out are those of the model.
        graph: Name of the graph if the model has several; by default all, if the format can.

    Returns:
        The differences in structure or meaning between the file and the graph, a sentence each.

    Raises:
        ConfigError: The path has the wrong suffix, no exporter has it, or it is that of the model
            itself; the options are another exporter's, or there are several graphs and none is
            named.
        PluginError: The exporter is not installed, or it is broken.
        UnsupportedOpError: The format cannot express some nodes; all are listed.
        ContainerError: The file cannot be written.
    """
    target = Path(path)
    exporter = exporter_for(target, format, "path")
    chosen = options_for(exporter, options)
    if not isinstance(model, Model):
        source = Path(model)
        _keep_source(target, exporter, source, f"path {target}")
        model = load_model(source)
    return _write(exporter, model, graph, target, _completed(chosen, model))


def find_exporter(name: str) -> Exporter:
    """Return an installed exporter.

    Raises:
        PluginError: The exporter is not installed, or it is broken.
    """
    return cast("type[Exporter]", load_plugin(GROUP, name))()


def exporter_for(
    path: Path, format: str | None, option: str, others: Sequence[str] = ()
) -> Exporter:
    """Return the exporter for a file, by its name or else by the suffix of the file.

    Args:
        path: The file.
        format: Name of the exporter; None to find it.
        option: The option that gives the path.
        others: Other suffixes that the option accepts, for errors.

    Raises:
        ConfigError: The suffix belongs to no exporter or to several, or is not the exporter's.
        PluginError: The exporter is not installed, or it is broken.
    """
    if format is not None:
        exporter = find_exporter(format)
        check_suffix(path, exporter.suffix, f"{format} writes {exporter.suffix} files", option)
        return exporter
    if path.suffix.lower() == SUFFIX:
        hint = "use `dovetail convert`, or `Model.save` in Python"
        raise _usage(f"no exporter writes {SUFFIX} files", f"{option} {path}", hint)
    return _by_suffix(path, option, others)


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model file to write.

    Attributes:
        path: Its path.
        exporter: Writes it; None for a `.dvt`.
        options: Options of the exporter; by default none.
    """

    path: Path
    exporter: Exporter | None = None
    options: ExportOptions | None = None

    def write(self, model: Model) -> tuple[str, ...]:
        """Write a model; the file appears only once it is complete.

        Returns:
            The differences from the model, as `export` returns them.

        Raises:
            ConfigError: The model has several graphs, and the format has one.
            UnsupportedOpError: The format cannot express some nodes; all are listed.
            ContainerError: The file cannot be written.
        """
        if self.exporter is None:
            model.save(self.path)
            return ()
        options = _completed(options_for(self.exporter, self.options), model)
        return _write(self.exporter, model, None, self.path, options)


def model_file(path: Path, source: Path, format: str | None, option: str) -> ModelFile:
    """Return a model file to write, in the format of its suffix.

    Args:
        path: Its path.
        source: The file of the model that will be written.
        format: Name of an exporter; None to find it by the suffix. `.dvt` needs none.
        option: The option that gives the path.

    Raises:
        ConfigError: The suffix belongs to no format or to several, or the file is the source.
        PluginError: The exporter is not installed, or it is broken.
    """
    where = f"{option} {path}"
    is_container = format is None and path.suffix.lower() == SUFFIX
    exporter = None if is_container else exporter_for(path, format, option, [SUFFIX])
    _keep_source(path, exporter, source, where)
    return ModelFile(path, exporter)


def _keep_source(path: Path, exporter: Exporter | None, source: Path, where: str) -> None:
    """Raise if a model's files would replace files that its source may consist of."""
    written = (path,) if exporter is None else exporter.files(path)
    # os.path's, since pathlib's raise if a name is too long or a folder cannot be searched
    replaced = [new for new in written if os.path.exists(new)]
    if not replaced or not os.path.exists(source):
        return
    read = {source}
    if source.suffix.lower() != SUFFIX:
        formats = (e for e in _exporters().values() if e.suffix == source.suffix.lower())
        read.update(*(each.files(source) for each in formats))
    for new in replaced:
        if any(os.path.exists(old) and new.samefile(old) for old in read):
            what = "the file" if new == path else f"{new.name}, next to the file,"
            raise _usage(f"{what} would overwrite its source", where, "use another name")


def _exporters() -> dict[str, Exporter]:
    return {n: cast("type[Exporter]", found)() for n, found in load_all(GROUP).items()}


def _by_suffix(path: Path, option: str, others: Sequence[str]) -> Exporter:
    suffix = path.suffix.lower()
    usable = _exporters()
    found = {name: each for name, each in usable.items() if each.suffix == suffix}
    if len(found) > 1 and DEFAULT not in found:
        hint = f"choose one by its name: {' or '.join(found)}"
        raise _usage(f"several formats have the suffix {suffix}", f"{option} {path}", hint)
    if not found:
        known = ", ".join(sorted({*others, *(each.suffix for each in usable.values())}))
        suffix = next(iter(others), usable[DEFAULT].suffix if DEFAULT in usable else "")
        better = with_suffix(path, suffix) or path / f"NAME{suffix}"
        raise _usage(
            f"no installed format has the suffix '{path.suffix}'; expected one of {known}",
            f"{option} {path}",
            f"use {option} {better}",
        )
    return found.get(DEFAULT) or next(iter(found.values()))


def _completed(options: ExportOptions, model: Model) -> ExportOptions:
    """Return options with what the model says of itself, where they say nothing."""
    said = model.producer.options
    missing = {
        name: said[name]
        for name in ExportOptions.__struct_fields__
        if name in said and not getattr(options, name)
    }
    return msgspec.structs.replace(options, **missing)


def _write(
    exporter: Exporter, model: Model, graph: str | None, path: Path, options: ExportOptions
) -> tuple[str, ...]:
    """Write one graph of a model, or all if none is named and the format can have several."""
    if graph is None and len(model.graphs) > 1 and isinstance(exporter, ModelExporter):
        return exporter.export_graphs(tuple(model.graphs.values()), path, options)
    return exporter.export(_chosen(model, graph), path, options)


def _chosen(model: Model, name: str | None) -> Graph:
    graphs = model.graphs
    if name is None and len(graphs) == 1:
        return next(iter(graphs.values()))
    if name is None:
        raise _usage(
            f"the model has {len(graphs)} graphs, but only one can be exported at a time",
            "graph",
            f"write a {SUFFIX} file, which has all graphs, and export each with `dovetail export "
            f"--graph NAME`: {', '.join(graphs)}",
        )
    if name not in graphs:
        raise _usage(f"graph '{name}' not found in the model", "graph", suggest_name(name, graphs))
    return graphs[name]


def _usage(message: str, where: str, hint: str) -> ConfigError:
    return ConfigError(message, code="USAGE", where=where, hint=hint)
