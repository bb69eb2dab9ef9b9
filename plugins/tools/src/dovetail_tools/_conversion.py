"""The work of `dovetail convert`, after its options are read."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from dovetail.api import Model
from dovetail.api import convert as convert_model
from dovetail.api.conversion import find_frontend
from dovetail.api.exporting import ModelFile, model_file
from dovetail.api.quantization import write_encodings
from dovetail.api.shape_sets import shape_sets
from dovetail.api.updateability import UpdatableMode
from dovetail.cli.model_output import write_model
from dovetail.cli.op_packages import add_op_packages, load_op_packages
from dovetail.cli.output import current_output, named_files, show_differences
from dovetail.cli.quantization_run import report_table, show_advice, show_notes
from dovetail.errors import PluginError, UnsupportedOpError, counted
from dovetail.files import recorded_writes, staged_folder, unwritable, with_suffix
from dovetail.ir import Graph, Pass, Shape, copy_graph, run_passes, static_tensors
from dovetail.ops import OpPackage, OpRegistry
from dovetail.ops.frontend import FrontendOptions
from dovetail.plugins.ops import installed_ops
from dovetail_tools._artefact import with_artefact
from dovetail_tools._quantization import QUANTIZE, QuantizationRequest, quantizing_nodes
from dovetail_tools.op_definitions import load_definitions

SUFFIX = ".dvt"


@dataclass(frozen=True, slots=True)
class Conversion:
    """A conversion as the command line describes it.

    Attributes:
        source: The model.
        options: Options of the frontend.
        ops: Finds ops.
        input_format: Name of the frontend; None to find it.
        graph_name: Name of the only graph; None for the one that the frontend chooses.
        shapes: Shapes of inputs, of which there is a graph each.
        before, after: Passes that run first, and those of the quantized model.
        passes: Changes of the passes.
        optimize: Whether the passes run.
        mode: The tensors whose encodings adapters may replace.
        artefact: What the file says of itself.
    """

    source: Path
    options: FrontendOptions
    ops: OpRegistry
    input_format: str | None = None
    graph_name: str | None = None
    shapes: Mapping[str, Sequence[Shape]] = field(default_factory=dict)
    before: tuple[Pass, ...] = ()
    after: tuple[Pass, ...] = ()
    passes: str = ""
    optimize: bool = True
    mode: UpdatableMode = "none"
    artefact: Mapping[str, str] = field(default_factory=dict)

    def options_by_graph(self) -> list[FrontendOptions]:
        """Return the options of the frontend for each set of shapes."""
        own = self.options
        return [
            msgspec.structs.replace(own, input_dims=dict(own.input_dims) | dict(each.dims))
            for each in shape_sets(self.shapes)
        ]

    def run(self, on_read: Callable[[Graph], None] | None = None) -> Model:
        """Return the converted model.

        Args:
            on_read: Called with each graph as the frontend reads it.

        Raises:
            DovetailError: The model cannot be converted.
        """
        model = convert_model(
            self.source,
            self.options,
            name=self.graph_name,
            shapes=self.shapes,
            before=self.before,
            optimize=self.optimize,
            passes=self.passes,
            ops=self.ops,
            input_format=self.input_format,
            quant_updatable_mode=self.mode,
            on_read=on_read,
        )
        return with_artefact(model, self.artefact)

    def finished(self, model: Model) -> Model:
        """Return the quantized model after the last passes.

        Raises:
            ConfigError: Inputs or outputs cannot have the wanted form.
        """
        if not self.after:
            return model
        graphs = [copy_graph(graph) for graph in model.graphs.values()]
        for graph in graphs:
            run_passes(graph, self.after)
        return Model.of(*graphs, producer=model.producer, registry=self.ops)


def ops_with(references: tuple[str, ...], configs: Sequence[Path]) -> OpRegistry:
    """Return the installed ops and those of the command line.

    Args:
        references: Op packages that are not installed, as given to `--op-packages`.
        configs: XML files of op definitions; packages with code for all their ops replace them.

    Raises:
        ConfigError: A reference or a file is invalid; lists every fault.
        PluginError: A package cannot be loaded, or two have one name.
    """
    ops = installed_ops()
    add_op_packages(ops, load_op_packages(references))
    add_op_packages(ops, [_with_code(defined, ops) for defined in load_definitions(configs)])
    return ops


def _with_code(defined: OpPackage, ops: OpRegistry) -> OpPackage:
    """Return the known package that has the ops of a definition; the definition if none has."""
    try:
        known = ops.package(defined.name)
    except (UnsupportedOpError, PluginError):  # the definition replaces one that is broken
        return defined
    return known if defined.schemas.keys() <= known.schemas.keys() else defined


def convert_file(
    conversion: Conversion,
    file: ModelFile,
    request: QuantizationRequest,
    *,
    check: bool = False,
) -> None:
    """Convert a model file and print a line about the result.

    Args:
        conversion: The model and the options.
        file: The file to write.
        request: Whether and how it is quantized.
        check: Whether the architecture checker writes a file about the result.

    Raises:
        DovetailError: The model cannot be converted or the file not written; no file remains.
    """
    start = time.perf_counter()
    source = conversion.source
    target = file.path
    request.check()
    read = _ReadNodes(conversion)
    model = request.stated(conversion.run(read.add), conversion.ops)
    if not request.wanted:
        files = _write(file, model, check=check)
        _report(source, files, read.count, model, time.perf_counter() - start)
        _note_conversions(model, files[0])
        return
    made = request.quantized(model, conversion.ops)
    model = conversion.finished(made.model)
    files = _write(file, model, check=check)
    dumped = write_encodings(model, target) if request.dump else ()
    show_notes(made.report)
    more = {"encodings": [str(path) for path in dumped], "report": made.report.to_builtins()}
    text = report_table(made.report) if request.show else None
    _report(source, files, read.count, model, time.perf_counter() - start, more, text)
    show_advice(made.report)


class _ReadNodes:
    """The nodes of the source model, from the graphs that its frontend reads."""

    def __init__(self, conversion: Conversion) -> None:
        frontend = find_frontend(conversion.source, conversion.input_format)
        self._stores_graphs = getattr(frontend, "stores_graphs", False)
        self._names: set[tuple[str, str]] = set()

    @property
    def count(self) -> int:
        """Number of nodes; those of one name count once in graphs of several shapes."""
        return len(self._names)

    def add(self, graph: Graph) -> None:
        """Add the nodes of a graph, or their sources where nodes become several or none."""
        if self._stores_graphs:
            self._names |= {(graph.name, node.name) for node in graph.nodes}
        else:
            self._names |= {("", name) for node in graph.nodes for name in node.sources}


def _write(file: ModelFile, model: Model, *, check: bool) -> tuple[Path, ...]:
    """Write a model, show how the file differs, and return all written files, the model first.

    With `check`, the file of the architecture checker is one of them: there are both or none.
    """
    if not check:
        return write_model(file, model)
    # imported here: most conversions do without
    from dovetail_tools._architecture import write_check

    with recorded_writes() as files, staged_folder(file.path.parent) as staging:
        notes = replace(file, path=staging.new / file.path.name).write(model)
        write_check(model, staging.new, file.path)
        staging.commit([path.relative_to(staging.new) for path in staging.new.iterdir()])
    show_differences(notes)
    return tuple(dict.fromkeys((file.path, *(path for path in files if path.exists()))))


def target_file(source: Path, output: Path | None, output_format: str | None) -> ModelFile:
    """Return the file to write.

    Args:
        source: The model.
        output: Path of the file; None for the .dvt named like the model.
        output_format: Name of an exporter; None to find it by the suffix.

    Raises:
        ConfigError: The suffix belongs to no format or to several, or the file is the source.
        PluginError: The exporter is not installed, or it is broken.
        ContainerError: The file cannot be written.
    """
    target = output or with_suffix(source, SUFFIX) or source
    file = model_file(target, source, output_format, "--output-path")
    # reported now instead of after a long conversion
    above = next(parent for parent in target.parents if os.path.lexists(parent))
    if not above.is_dir():
        raise unwritable(target, OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)))
    if os.path.isdir(target):  # pathlib's raises if a name is too long
        raise unwritable(target, OSError(errno.EISDIR, os.strerror(errno.EISDIR)))
    return file


def _report(
    source: Path,
    files: Sequence[Path],
    read: int,
    model: Model,
    seconds: float,
    more: Mapping[str, Any] | None = None,
    text: str | None = None,
) -> None:
    """Report the result: in a message, and as data with --json or if there is a text."""
    nodes = [node for graph in model.graphs.values() for node in graph.nodes]
    weights = _weight_bytes(model)
    output = current_output()
    output.message(
        f"{source} -> {named_files(files)}: {counted(read, 'node')} in, "
        f"{counted(len(nodes), 'node')} out, "
        f"{weights / 1e6:.2f} MB of weights, {seconds:.2f} s"
    )
    if output.json or text is not None:
        data = {
            "source": str(source),
            "model": str(files[0]),
            "files": [str(file) for file in files],
            "graphs": list(model.graphs),
            "source_nodes": read,
            "nodes": len(nodes),
            "weight_bytes": weights,
            "file_bytes": sum(file.stat().st_size for file in files),
            "seconds": seconds,
        }
        output.data(data | dict(more or {}), text or "")


def _note_conversions(model: Model, file: Path) -> None:
    """Say how a model whose own ops quantize runs on integers."""
    if count := quantizing_nodes(model):
        current_output().message(
            f"note: the model quantizes by {counted(count, f'{QUANTIZE} op')}, and computes in "
            f"float; `dovetail quantize {file}` makes it compute on integers with its own encodings"
        )


def _weight_bytes(model: Model) -> int:
    """Return the number of bytes of static data; data that tensors share count once.

    Hashes of blobs are not computed: that would read all weights into memory.
    """
    static = (t.data for graph in model.graphs.values() for t in static_tensors(graph))
    known = {blob.hash if blob.is_hashed else id(blob): blob for blob in static if blob}
    return sum(blob.nbytes for blob in known.values())
