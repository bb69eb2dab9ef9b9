"""The work of `dovetail convert`, after its options are read."""

from __future__ import annotations

import errno
import logging
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
from dovetail.api.quantization import run_stating, write_encodings
from dovetail.api.shape_sets import shape_sets
from dovetail.api.updateability import UpdatableMode
from dovetail.cli.op_packages import add_op_packages, load_op_packages
from dovetail.cli.output import current_output, named_files, show_differences
from dovetail.cli.quantization_run import quantized, report_table, show_advice, show_notes
from dovetail.errors import PluginError, UnsupportedOpError, counted
from dovetail.files import recorded_writes, staged_folder, unwritable, with_suffix
from dovetail.ir import Graph, Pass, Shape, static_tensors
from dovetail.ops import OpPackage, OpRegistry
from dovetail.ops.frontend import FrontendOptions
from dovetail.plugins.ops import installed_ops
from dovetail.quantization import options_from
from dovetail_tools._artefact import with_artefact
from dovetail_tools._errors import usage
from dovetail_tools.op_definitions import load_definitions

SUFFIX = ".dvt"
_QUANTIZE = "Quantize"
_LOG = logging.getLogger("dovetail.convert")


@dataclass(frozen=True, slots=True)
class Quantizing:
    """The command line's options of quantization.

    Attributes:
        input_list: Path of an input list.
        given: The quantizer's options that were given.
        native: Whether raw inputs have values of the inputs' types.
        only_states: Whether the model stays float and only states the encodings of a file.
        strips: Whether nodes that quantize are removed from a model that stays float, which states
            their encodings.
        dump: Whether encodings are written next to the .dvt.
        show: Whether the report is printed.
    """

    input_list: str | None
    given: Mapping[str, Any]
    native: bool = False
    only_states: bool = False
    strips: bool = False
    dump: bool = False
    show: bool = False

    @property
    def wanted(self) -> bool:
        """True if the quantizer changes the model, if only for a backend."""
        return not self.only_states and (self._changes_types or "target_backend" in self.given)

    @property
    def options(self) -> Mapping[str, Any]:
        """The quantizer's options, which leave all floats if there is only a backend."""
        return self.given if self._changes_types else {**self.given, "float_fallback": True}

    @property
    def _changes_types(self) -> bool:
        half = self.given.get("float_bitwidth") == 16
        alone = {"quantization_overrides", "float_fallback", "keep_weights_quantized"}
        return self.input_list is not None or bool(self.given.keys() & alone) or half

    def check(self) -> None:
        """Raise if the quantizer's options are given, but the model is not quantized.

        With `--lenient`, log a warning instead.

        Raises:
            ConfigError: Names all these options.
        """
        if self.only_states:
            self._check_stating()
            return
        # a float model has its nodes, and has no encodings, unless the nodes are to be removed
        known = {"lenient", "keep_quant_nodes"} | ({"ignore_encodings"} if self.strips else set())
        names = ["--" + name.replace("_", "-") for name in self.given if name not in known]
        names += ["--use-native-input-files"] * self.native
        names += ["--dump-encoding-json"] * self.dump + ["--report"] * self.show
        if self.wanted or not names:
            return
        text = f"no effect of {', '.join(names)}: the model is not quantized"
        if "lenient" not in self.given:
            raise usage(
                text,
                where="dovetail convert",
                hint="give --input-list, --quantization-overrides, --float-fallback, "
                "--keep-weights-quantized, --float-bitwidth 16 or --target-backend",
            )
        _LOG.warning(text)

    def _check_stating(self) -> None:
        hint = "quantize with them later"
        needless = self.given.keys() - {"quantization_overrides", "lenient", "keep_quant_nodes"}
        if "quantization_overrides" not in self.given:
            text = "--cache-overrides requires --quantization-overrides"
            hint = "pass the encodings file there"
        elif self.input_list is not None or needless:
            names = ["input_list"] * (self.input_list is not None) + sorted(needless)
            options = ", ".join("--" + name.replace("_", "-") for name in names)
            text = f"--cache-overrides stores encodings without quantizing: no effect of {options}"
        else:
            return
        raise usage(text, where="dovetail convert", hint=hint)

    def stated(self, model: Model, ops: OpRegistry) -> Model:
        """Return the float model with the encodings that it is to state.

        Raises:
            DovetailError: The encodings file has faults, or does not match the model.
        """
        keeps = not self.strips or "keep_quant_nodes" in self.given
        if not self.only_states and (keeps or not _quantizing_nodes(model)):
            return model
        said = ("quantization_overrides", "ignore_encodings", "lenient")
        given = {name: self.given[name] for name in said if name in self.given}
        options = options_from({**given, "keep_quant_nodes": keeps}, "command line")
        made, notes = run_stating(model, options, ops)
        for note in notes:
            current_output().message(f"note: {note}")
        return made


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
        before: Passes that run first.
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
    quantizing: Quantizing,
    *,
    check: bool = False,
) -> None:
    """Convert a model file and print a line about the result.

    Args:
        conversion: The model and the options.
        file: The file to write.
        quantizing: Whether and how it is quantized.
        check: Whether the architecture checker writes a file about the result.

    Raises:
        DovetailError: The model cannot be converted or the file not written; no file remains.
    """
    start = time.perf_counter()
    source = conversion.source
    target = file.path
    quantizing.check()
    read = _ReadNodes(conversion)
    model = conversion.run(read.add)
    if not quantizing.wanted:
        model = quantizing.stated(model, conversion.ops)
        files = _write(file, model, check=check)
        _report(source, files, read.count, model, time.perf_counter() - start)
        _note_conversions(model, files[0])
        return
    made = quantized(
        model, quantizing.input_list, quantizing.options, conversion.ops, native=quantizing.native
    )
    files = _write(file, made.model, check=check)
    dumped = write_encodings(made.model, target) if quantizing.dump else ()
    show_notes(made.report)
    more = {"encodings": [str(path) for path in dumped], "report": made.report.to_builtins()}
    text = report_table(made.report) if quantizing.show else None
    _report(source, files, read.count, made.model, time.perf_counter() - start, more, text)
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
    with recorded_writes() as files:
        if not check:
            notes = file.write(model)
        else:
            # imported here: most conversions do without
            from dovetail_tools._architecture import write_check

            with staged_folder(file.path.parent) as staging:
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
    if not target.parent.is_dir():
        code = errno.ENOTDIR if target.parent.exists() else errno.ENOENT
        raise unwritable(target, OSError(code, os.strerror(code)))
    if target.is_dir():
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
    if count := _quantizing_nodes(model):
        current_output().message(
            f"note: the model quantizes by {counted(count, f'{_QUANTIZE} op')}, and computes in "
            f"float; `dovetail quantize {file}` makes it compute on integers with its own encodings"
        )


def _quantizing_nodes(model: Model) -> int:
    """Return the number of nodes that quantize."""
    nodes = (node for graph in model.graphs.values() for node in graph.nodes)
    return sum(node.op_type == _QUANTIZE for node in nodes)


def _weight_bytes(model: Model) -> int:
    """Return the number of bytes of static data; shared data count once."""
    static = (t.data for graph in model.graphs.values() for t in static_tensors(graph))
    return sum(blob.nbytes for blob in {blob.hash: blob for blob in static if blob}.values())
