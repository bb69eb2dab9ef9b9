"""OnnxFrontend: from a path to a graph."""

from __future__ import annotations

import logging
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from dovetail.errors import ConfigError, DovetailError, FrontendError, Problem, UnsupportedOpError
from dovetail.ir import Graph
from dovetail.ops import OpRegistry
from dovetail.ops.frontend import DryRun, InputsNeededError
from dovetail.plugins.ops import installed_ops
from dovetail_onnx._domains import normalize_domains
from dovetail_onnx._dropout import disable_dropout
from dovetail_onnx._functions import inline_functions
from dovetail_onnx._fusion import fuse_gelu
from dovetail_onnx._input_values import with_values
from dovetail_onnx._inputs import bind_inputs
from dovetail_onnx._integer_products import fuse_integer_products
from dovetail_onnx._masked_assignment import fuse_masked_assignments
from dovetail_onnx._masked_scatter import fuse_masked_scatters
from dovetail_onnx._options import check_options
from dovetail_onnx._proto import looks_like_onnx, read_proto
from dovetail_onnx._reader import GraphReader
from dovetail_onnx._schema_functions import write_out
from dovetail_onnx._source import SourceGraph, check_text, cut, parse_model
from dovetail_onnx._stored_tables import dequantize_tables
from dovetail_onnx._survey import Survey, survey
from dovetail_onnx._tables import Tables
from dovetail_onnx._tensors import TensorReader
from dovetail_onnx.options import OnnxOptions
from dovetail_opset.importing.problems import UnsupportedNode, count_nodes, grouped

_LOG = logging.getLogger("dovetail.onnx")


@dataclass(frozen=True, slots=True)
class _PreparedModel:
    """A model as its graph is built from, and the options that remain."""

    source: SourceGraph
    options: OnnxOptions
    tensors: TensorReader
    survey: Survey
    tables: Tables


@dataclass(frozen=True, slots=True)
class _Imported:
    """A graph, complete only if there are no problems, and all problems."""

    graph: Graph
    source: SourceGraph
    unsupported: list[UnsupportedNode]
    invalid: list[Problem]
    needed: tuple[str, ...] = ()


class OnnxFrontend:
    """Reads ONNX models, opset 7 and later, into graphs of `qti.aisw` ops."""

    name: ClassVar[str] = "onnx"
    suffixes: ClassVar[tuple[str, ...]] = (".onnx",)
    options_type: ClassVar[type[OnnxOptions]] = OnnxOptions

    def recognises(self, path: Path) -> bool:
        """Return whether a file looks like an ONNX model, by its suffix or first bytes."""
        return path.suffix.lower() in self.suffixes or looks_like_onnx(path)

    def read(
        self, path: Path, options: OnnxOptions | None = None, ops: OpRegistry | None = None
    ) -> tuple[Graph, ...]:
        """Return the graph of a model, named after the file.

        Its inputs and outputs have the model's names, order, types and layouts; channels-last ops
        are between transposes, which a later pass removes. Inputs that no output depends on
        are inputs of the graph, too, with a warning in the log; only those are left out whose type
        or shape is unknown, or that `out_names` cut away.

        Args:
            path: The .onnx file; external data are in its folder.
            options: The user's options; by default none.
            ops: The op packages; by default those that are installed.

        Raises:
            ConfigError: Options do not fit the model (USAGE); lists all of them.
            FrontendError: The file or the model is wrong; lists all that is wrong.
            UnsupportedOpError: Nodes that cannot be converted, all of them. An InputsNeededError
                if it would help to know the values of some of the model's inputs.
        """
        try:
            made = _import(_prepare(path, options or OnnxOptions(), ops), path)
        except DovetailError as error:
            error.where = error.where or str(path)
            raise
        if made.unsupported:
            raise _unsupported(made, str(path))
        if made.invalid:
            raise FrontendError("the model is wrong", where=str(path), problems=made.invalid)
        for name in made.source.unused_inputs:
            does = "values are ignored" if name in made.source.inputs else "left out"
            _LOG.warning("input '%s': no output depends on it; %s", name, does)
        made.graph.name = path.stem
        return (made.graph,)

    def input_names(self, path: Path) -> tuple[str, ...]:
        """Return the names of a model's inputs, without those that have an initializer.

        Args:
            path: The .onnx file.

        Raises:
            FrontendError: The file cannot be read as a model.
        """
        model, _ = read_proto(path)
        return tuple(parse_model(model).inputs)

    def dry_run(
        self, path: Path, options: OnnxOptions | None = None, ops: OpRegistry | None = None
    ) -> DryRun:
        """Return a survey of what `read` would do with a model.

        Args:
            path: The .onnx file.
            options: As for `read`.
            ops: As for `read`.

        Raises:
            ConfigError: The options do not fit the model.
            FrontendError: The file cannot be read as a model at all.
        """
        try:
            model = _prepare(path, options or OnnxOptions(), ops)
        except DovetailError as error:
            error.where = error.where or str(path)
            raise
        try:
            made = _import(model, path)
            unsupported, invalid = made.unsupported, made.invalid
        except ConfigError as error:
            error.where = error.where or str(path)
            raise
        except DovetailError as error:
            unsupported = list(model.survey.unsupported)
            invalid = [*error.as_problems(), *model.survey.malformed.values()]
        return DryRun(
            operators=model.survey.operators,
            problems=(*grouped(unsupported), *invalid),
            unused_inputs=model.source.unused_inputs,
        )


def _prepare(path: Path, options: OnnxOptions, ops: OpRegistry | None) -> _PreparedModel:
    tables = Tables(installed_ops() if ops is None else ops)
    model, payloads = read_proto(path)
    check_text(model)
    normalize_domains(model)
    if options.dropout == "off":
        disable_dropout(model)
    model = write_out(inline_functions(model), tables)
    tensors = TensorReader(path.parent, payloads)
    whole = parse_model(model)
    check_options(whole, options)
    whole, options = with_values(whole, options)
    source = fuse_gelu(cut(whole, options.out_names, keep_nodes=options.keep_disconnected), tensors)
    source = fuse_integer_products(source, tensors)
    source = dequantize_tables(source, tensors)
    source = fuse_masked_assignments(source, tensors)
    source = fuse_masked_scatters(source, tensors)
    return _PreparedModel(source, options, tensors, survey(source, tables), tables)


def _import(model: _PreparedModel, path: Path) -> _Imported:
    source, unsupported = model.source, model.survey.unsupported
    try:
        specs = bind_inputs(source.inputs, model.options, str(path), optional=source.unused_inputs)
    except FrontendError as error:
        if error.code != "MODEL_SHAPE_UNKNOWN" or not unsupported:
            raise
        # without shapes nothing can be built, and unsupported operators matter more
        return _Imported(Graph(source.name), source, list(unsupported), list(error.problems))
    inputs = {name: info for name, info in source.inputs.items() if name in specs}
    source = replace(source, inputs=inputs)
    reader = GraphReader(
        source,
        specs,
        model.survey,
        model.tensors,
        model.tables,
        path.stat().st_size,
        model.options.updateable,
    )
    with np.errstate(all="ignore"):  # inf and NaN are valid constants
        graph = reader.run()
    model.tensors.check()  # constants were copied and computed since they were read
    return _Imported(graph, source, reader.unsupported, reader.invalid, reader.needed_inputs())


def _unsupported(made: _Imported, where: str) -> UnsupportedOpError:
    message = f"{count_nodes(made.unsupported)} of the model cannot be converted"
    problems = [*grouped(made.unsupported), *made.invalid]
    if not made.needed:
        return UnsupportedOpError(message, where=where, problems=problems)
    if made.invalid or not all(each.needs for each in made.unsupported):
        code, what = "OP_UNSUPPORTED", "more of the model may be converted once the values"
    else:
        code, what = "MODEL_VALUES_UNKNOWN", "the model can be converted once the values"
    options = " ".join(f"--input-value {shlex.quote(name)} VALUE" for name in made.needed)
    return InputsNeededError(
        message,
        made.needed,
        code=code,
        where=where,
        problems=problems,
        hint=f"{what} of inputs are known: `dovetail convert {options}`, or in Python "
        f"OnnxOptions(input_values=...) or Session(..., specialize={list(made.needed)})",
    )
