"""OnnxFrontend: from a path to a graph."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import ClassVar

from dovetail.errors import DovetailError, FrontendError, Problem, UnsupportedOpError
from dovetail.ir import Graph
from dovetail.ir.frontend import DryRun, FrontendOptions
from dovetail_onnx._functions import inline_functions
from dovetail_onnx._fusion import fuse_gelu
from dovetail_onnx._inputs import bind_inputs
from dovetail_onnx._proto import looks_like_onnx, read_proto
from dovetail_onnx._reader import GraphReader
from dovetail_onnx._source import SourceGraph, cut, parse_model
from dovetail_onnx._survey import Survey, survey
from dovetail_onnx._tensors import TensorReader

_LOG = logging.getLogger("dovetail.onnx")


class OnnxFrontend:
    """Reads ONNX models, opset 7 and later, into graphs of `qti.aisw` ops."""

    name: ClassVar[str] = "onnx"
    suffixes: ClassVar[tuple[str, ...]] = (".onnx",)

    def recognises(self, path: Path) -> bool:
        """Whether a file looks like an ONNX model: by its suffix, else by its first bytes."""
        return path.suffix.lower() in self.suffixes or looks_like_onnx(path)

    def read(self, path: Path, options: FrontendOptions | None = None) -> Graph:
        """Gives the graph of a model.

        Its inputs and outputs have the model's names, order, types and layouts; channels-last ops
        stand between transposes, which a later pass takes out. Inputs that no output depends on
        are left out, with a warning in the log.

        Args:
            path: The .onnx file; external data lie in its folder.
            options: What the user decides; by default nothing.

        Raises:
            FrontendError: The file or the model is wrong; says everything that is.
            UnsupportedOpError: Nodes that cannot be converted, all of them.
        """
        try:
            graph, problems, invalid, source = self._import(path, options or FrontendOptions())
        except DovetailError as error:
            error.where = error.where or str(path)
            raise
        if problems:
            count = "a node" if len(problems) == 1 else f"{len(problems)} nodes"
            raise UnsupportedOpError(
                f"{count} of the model cannot be converted",
                where=str(path),
                problems=[*problems, *invalid],
            )
        if invalid:
            raise FrontendError("the model is wrong", where=str(path), problems=invalid)
        for name in source.unused_inputs:
            _LOG.warning("input '%s' is left out: no output depends on it", name)
        return graph

    def dry_run(self, path: Path, options: FrontendOptions | None = None) -> DryRun:
        """Gives what `read` would make of a model.

        Args:
            path: The .onnx file.
            options: As for `read`.

        Raises:
            FrontendError: The file cannot be read as a model at all.
        """
        options = options or FrontendOptions()
        try:
            source, _, seen = self._look(path, options)
        except DovetailError as error:
            error.where = error.where or str(path)
            raise
        try:
            _, problems, invalid, _ = self._import(path, options)
        except DovetailError as error:
            problems = [*seen.problems, *_as_problems(error)]
            invalid = list(seen.malformed.values())
        return DryRun(
            operators=seen.operators,
            problems=(*problems, *invalid),
            unused_inputs=source.unused_inputs,
        )

    def _look(
        self, path: Path, options: FrontendOptions
    ) -> tuple[SourceGraph, TensorReader, Survey]:
        model = inline_functions(read_proto(path))
        tensors = TensorReader(path.parent)
        source = fuse_gelu(cut(parse_model(model), options.out_names), tensors)
        return source, tensors, survey(source)

    def _import(
        self, path: Path, options: FrontendOptions
    ) -> tuple[Graph, list[Problem], list[Problem], SourceGraph]:
        source, tensors, seen = self._look(path, options)
        try:
            specs = bind_inputs(source.inputs, options)
        except FrontendError as error:
            if error.code != "MODEL_SHAPE_UNKNOWN" or not seen.problems:
                raise
            # without shapes nothing can be built, and what is unsupported weighs more
            return Graph(source.name), [*seen.problems, *error.problems], [], source
        reader = GraphReader(source, specs, seen, tensors)
        graph = reader.run()
        return graph, reader.unsupported, reader.invalid, source


def _as_problems(error: DovetailError) -> list[Problem]:
    return list(error.problems) or [Problem(error.message, error.where, error.hint)]
