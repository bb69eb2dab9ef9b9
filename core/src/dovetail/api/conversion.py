"""Conversion: a model file through its frontend and the passes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol, cast

import msgspec
import numpy as np

import dovetail
from dovetail.arguments import check_arguments
from dovetail.container import Model, Producer, hash_source, is_container
from dovetail.errors import FrontendError, PluginError
from dovetail.files import unreadable
from dovetail.ir import Blob, Graph, Pass, run_passes
from dovetail.ops import OpRegistry, check_ops, find_op_faults
from dovetail.ops.frontend import Frontend, FrontendOptions
from dovetail.plugins import leave_out, load_all, load_usable
from dovetail.plugins import load as load_plugin
from dovetail.plugins import names as plugin_names
from dovetail.plugins.events import PassFinished
from dovetail.plugins.hooks import hooks
from dovetail.plugins.ops import installed_ops
from dovetail.runtime.names import reject_foreign

PathLike = str | os.PathLike[str]
PIPELINE = "convert.default"
_FRONTENDS = "dovetail.frontends"
SUFFIX = ".dvt"
# Inputs with up to this many values are recorded in full in the manifest, others by their hash.
_SHOWN_VALUES = 16


class Pipeline(Pass, Protocol):
    """A named list of passes that third-party passes can join."""

    @property
    def passes(self) -> tuple[Pass, ...]:
        """The passes in order."""

    def expanded(
        self, extra: Iterable[Any], leave_out: Callable[[Any, PluginError], None]
    ) -> Pipeline:
        """Return the pipeline with `extra` passes inserted where they ask to be.

        `leave_out` receives each pass that asks for an impossible position, with the reason.
        """


@check_arguments
def load(path: PathLike, *, map_weights: bool = True) -> Model:
    """Load a `.dvt` model.

    Args:
        path: The file.
        map_weights: Whether weights are read from the file when they are used, so that the file
            must not be changed in place. Otherwise the whole file is read into memory.

    Raises:
        ContainerError: The file is not a container, or is damaged.
        ConfigError: `path` is not a path.
    """
    source = Path(path)
    if not is_container(source):
        reject_foreign(source)
    return Model.load(source, map_weights=map_weights)


@check_arguments
def load_model(
    path: PathLike,
    ops: OpRegistry | None = None,
    *,
    map_weights: bool = True,
    input_format: str | None = None,
) -> Model:
    """Load a `.dvt` model, or convert any other model file that an installed frontend reads.

    Args:
        path: The file.
        ops: Ops for a conversion; by default those of all installed op packages.
        map_weights: As for `load`; if it is off, a conversion reads all external data into memory.
        input_format: As for `convert`; a `.dvt` model needs none.

    Raises:
        DovetailError: The file cannot be loaded or converted.
    """
    if input_format is None and is_converted(path):
        return load(path, map_weights=map_weights)
    model = convert(path, ops=ops, input_format=input_format)
    if not map_weights:
        _detach(model)
    return model


def _detach(model: Model) -> None:
    """Move all weights into private memory; tensors that share a blob still do."""
    private: dict[Blob, Blob] = {}
    for graph in model.graphs.values():
        for tensor in graph.tensors.values():
            if tensor.data is not None:
                if tensor.data not in private:
                    private[tensor.data] = tensor.data.detached()
                tensor.data = private[tensor.data]


def is_converted(path: PathLike) -> bool:
    """Return whether a file is a Dovetail model, by its name or its first bytes."""
    return Path(path).suffix.lower() == SUFFIX or is_container(path)


@check_arguments
def convert(
    path: PathLike,
    options: FrontendOptions | None = None,
    *,
    name: str | None = None,
    optimize: bool = True,
    ops: OpRegistry | None = None,
    input_format: str | None = None,
) -> Model:
    """Convert a model file.

    Args:
        path: The file.
        options: Shapes, outputs and the like.
        name: Name of the graph; by default the file's name without suffix.
        optimize: Whether the passes run; otherwise the graph stays as the frontend reads it.
        ops: The ops; by default those of all installed op packages.
        input_format: Name of the frontend; by default it is found by suffix, then by content.

    Raises:
        FrontendError: No frontend reads the file, or it is damaged.
        UnsupportedOpError: It has operators that nothing converts; all are listed.
        GraphError: A node does not match its op, or a pass broke the graph.
        PluginError: Several dists claim an op package that the model uses.
    """
    source = Path(path)
    registry = installed_ops() if ops is None else ops
    frontend = find_frontend(source, input_format)
    options = FrontendOptions() if options is None else options
    graph = frontend.read(source, options, registry)
    _require_constants(options, graph, source)
    graph.name = name or source.stem
    check_ops(graph, registry)  # passes require a valid graph; faults found here are not theirs
    before = _sources(graph)
    if optimize:
        run_passes(
            graph,
            pipeline_passes(),
            check=lambda g: find_op_faults(g, registry),
            finished=lambda step, changed, ms: _finished(graph.name, step, changed, ms),
        )
    graph.removed_sources |= before - _sources(graph)
    producer = Producer(
        "dovetail",
        dovetail.__version__,
        source.name,
        hash_source(source),
        _as_text(options),
    )
    return Model.of(graph, producer=producer, registry=registry)


def find_frontend(path: Path, input_format: str | None = None) -> Frontend:
    """Return the frontend that reads a file.

    Args:
        path: The file.
        input_format: Name of the frontend; by default it is found by suffix, then by content.

    Raises:
        FrontendError: The file cannot be read, or no installed frontend reads it.
        PluginError: The frontend for it is broken, or none has the name.
    """
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise unreadable(path, error) from error
    if input_format is not None:
        return cast("type[Frontend]", load_plugin(_FRONTENDS, input_format))()
    if is_container(path):
        raise FrontendError(
            "the file is already a Dovetail container; there is nothing to convert",
            where=str(path),
            hint="load it, or pass it to net-run or inspect",
        )
    broken = ""
    suffixes: set[str] = set()
    for name in plugin_names(_FRONTENDS):
        loaded = load_usable(_FRONTENDS, name)
        if loaded is None:
            broken = broken or name
            continue
        frontend = cast("type[Frontend]", loaded)()
        suffixes.update(frontend.suffixes)
        if path.suffix.lower() in frontend.suffixes or frontend.recognises(path):
            return frontend
    if broken:
        load_plugin(_FRONTENDS, broken)  # raises again: it might have read the file
    reject_foreign(path)
    raise FrontendError(
        "no installed frontend reads this file",
        code="MODEL_FORMAT_UNKNOWN",
        where=str(path),
        hint=f"installed frontends read {', '.join(sorted(suffixes)) or 'nothing'}",
    )


def pipeline_passes() -> tuple[Pass, ...]:
    """Return the passes of the conversion in order, third-party passes included.

    A broken third-party pass is left out with a warning, and so is one that asks for an impossible
    position.

    Raises:
        PluginError: The standard op set is not installed.
    """
    pipeline = cast("Pipeline", load_plugin("dovetail.passes", PIPELINE))
    installed = load_all("dovetail.passes")
    others = [each for name, each in installed.items() if name != PIPELINE]

    def report(each: Pass, fault: PluginError) -> None:
        leave_out("dovetail.passes", each.name, fault.message)

    return pipeline.expanded(others, report).passes


def _sources(graph: Graph) -> frozenset[str]:
    return frozenset(tensor.source for tensor in graph.tensors.values())


def _finished(graph: str, step: str, changed: bool, ms: float) -> None:
    if hooks.active:
        hooks.pass_finished(PassFinished(graph, step, changed, ms))


def _require_constants(options: FrontendOptions, graph: Graph, source: Path) -> None:
    """Raise if the frontend did not replace inputs by their `input_values`."""
    if left := sorted(options.input_values.keys() & {t.name for t in graph.inputs}):
        raise FrontendError(
            f"the frontend for this format cannot turn inputs into constants: {', '.join(left)}",
            where=str(source),
            hint="omit `input_values` and `specialize`, or fix the values in the model",
        )


def _as_text(options: FrontendOptions) -> dict[str, str]:
    """Return the options that differ from their defaults, as JSON text."""
    given = msgspec.to_builtins(options, enc_hook=_summary)
    defaults = msgspec.to_builtins(FrontendOptions())
    return {
        name: msgspec.json.encode(value, order="sorted").decode()
        for name, value in given.items()
        if value != defaults[name]
    }


def _summary(values: object) -> dict[str, object]:
    """Return a short description of an array for the manifest."""
    if not isinstance(values, np.ndarray):
        raise NotImplementedError(f"unsupported option type {type(values).__name__}")
    summary: dict[str, object] = {"dtype": str(values.dtype), "shape": list(values.shape)}
    if values.size <= _SHOWN_VALUES and values.dtype.kind in "iub":
        return summary | {"values": values.tolist()}
    return summary | {"sha256": hashlib.sha256(values.tobytes()).hexdigest()}
