"""Conversion: a model file through its frontend and the passes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol, cast

import msgspec
import numpy as np

import dovetail
from dovetail.container import Model, Producer, hash_source, is_container
from dovetail.errors import FrontendError
from dovetail.files import unreadable
from dovetail.ir import Graph, Pass, run_passes
from dovetail.ops import OpRegistry, check_ops, find_op_faults
from dovetail.ops.frontend import Frontend, FrontendOptions
from dovetail.plugins import load as load_plugin
from dovetail.plugins import load_all, load_usable
from dovetail.plugins import names as plugin_names
from dovetail.plugins.events import PassFinished
from dovetail.plugins.hooks import hooks
from dovetail.plugins.ops import installed_ops
from dovetail.runtime.names import refuse_foreign

PathLike = str | os.PathLike[str]
PIPELINE = "convert.default"
SUFFIX = ".dvt"
# Values of an input that the manifest says in full; of more it has the hash.
_SHOWN_VALUES = 16


class Pipeline(Pass, Protocol):
    """A named list of passes that third parties' passes can join."""

    @property
    def passes(self) -> tuple[Pass, ...]:
        """The passes in order."""

    def expanded(self, extra: Iterable[Any]) -> Pipeline:
        """Return the pipeline with `extra` passes in the places they ask for."""


def load(path: PathLike) -> Model:
    """Load a `.dvt` model; its weights stay in the file until they are used.

    Raises:
        ContainerError: The file is not a container, or is damaged.
    """
    refuse_foreign(Path(path))
    return Model.load(path)


def load_model(path: PathLike, ops: OpRegistry | None = None) -> Model:
    """Load a `.dvt` model, or converts any model file that an installed frontend reads.

    Args:
        path: The file.
        ops: Finds ops for a conversion; by default those of all installed op packages.

    Raises:
        DovetailError: The file cannot be loaded or converted.
    """
    return load(path) if is_converted(path) else convert(path, ops=ops)


def is_converted(path: PathLike) -> bool:
    """Return whether a file is a Dovetail model, by its name or its first bytes."""
    return Path(path).suffix.lower() == SUFFIX or is_container(path)


def convert(
    path: PathLike,
    options: FrontendOptions | None = None,
    *,
    name: str | None = None,
    optimize: bool = True,
    ops: OpRegistry | None = None,
) -> Model:
    """Convert a model file.

    Args:
        path: The file; its frontend is found by suffix, then by content.
        options: Shapes, outputs and the like.
        name: Of the graph; by default the file's name without suffix.
        optimize: Whether the passes run; without, the graph is as the frontend reads it.
        ops: Finds ops; by default those of all installed op packages.

    Raises:
        FrontendError: No frontend reads the file, or it is damaged.
        UnsupportedOpError: It has operators that nothing converts; all are listed.
        GraphError: A node does not fit its op, or a pass broke the graph.
        PluginError: Several dists claim an op package that the model uses.
    """
    source = Path(path)
    registry = installed_ops() if ops is None else ops
    frontend = find_frontend(source)
    options = FrontendOptions() if options is None else options
    graph = frontend.read(source, options, registry)
    _require_taken(options, graph, source)
    graph.name = name or source.stem
    check_ops(graph, registry)  # passes take a valid graph: what is wrong is not their fault
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


def find_frontend(path: Path) -> Frontend:
    """Return the frontend that reads a file.

    Raises:
        FrontendError: The file cannot be read, or no installed frontend reads it.
        PluginError: The frontend for it is broken.
    """
    refuse_foreign(path)
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise unreadable(path, error) from error
    if is_container(path):
        raise FrontendError(
            "this is a Dovetail container already; there is nothing to convert",
            where=str(path),
            hint="load it, or give it to net-run or inspect as it is",
        )
    broken = ""
    suffixes: set[str] = set()
    for name in plugin_names("dovetail.frontends"):
        loaded = load_usable("dovetail.frontends", name)
        if loaded is None:
            broken = broken or name
            continue
        frontend = cast("type[Frontend]", loaded)()
        suffixes.update(frontend.suffixes)
        if path.suffix.lower() in frontend.suffixes or frontend.recognises(path):
            return frontend
    if broken:
        load_plugin("dovetail.frontends", broken)  # raises again: it might have read the file
    raise FrontendError(
        "no installed frontend reads this file",
        code="MODEL_FORMAT_UNKNOWN",
        where=str(path),
        hint=f"installed frontends read {', '.join(sorted(suffixes)) or 'nothing'}",
    )


def pipeline_passes() -> tuple[Pass, ...]:
    """Return the conversion's passes in order, those of third parties in their places.

    Raises:
        PluginError: The standard op set is not installed, or a pass asks for an impossible place.
    """
    pipeline = cast("Pipeline", load_plugin("dovetail.passes", PIPELINE))
    installed = load_all("dovetail.passes")  # a third party's broken pass is left out, and said so
    others = [each for name, each in installed.items() if name != PIPELINE]
    return pipeline.expanded(others).passes


def _sources(graph: Graph) -> frozenset[str]:
    return frozenset(tensor.source for tensor in graph.tensors.values())


def _finished(graph: str, step: str, changed: bool, ms: float) -> None:
    if hooks.active:
        hooks.pass_finished(PassFinished(graph, step, changed, ms))


def _require_taken(options: FrontendOptions, graph: Graph, source: Path) -> None:
    """Refuses what a frontend did that knows nothing of `input_values`."""
    if left := sorted(options.input_values.keys() & {t.name for t in graph.inputs}):
        raise FrontendError(
            f"the frontend for this format cannot make constants of inputs: {', '.join(left)}",
            where=str(source),
            hint="give no `input_values` or `specialize`, or fix the values in the model",
        )


def _as_text(options: FrontendOptions) -> dict[str, str]:
    """The options that were really given."""
    given = msgspec.to_builtins(options, enc_hook=_summary)
    defaults = msgspec.to_builtins(FrontendOptions())
    return {
        name: msgspec.json.encode(value, order="sorted").decode()
        for name, value in given.items()
        if value != defaults[name]
    }


def _summary(values: object) -> dict[str, object]:
    """What the manifest says of an array, however large it is."""
    if not isinstance(values, np.ndarray):
        raise NotImplementedError(f"no option is a {type(values).__name__}")
    said: dict[str, object] = {"dtype": str(values.dtype), "shape": list(values.shape)}
    if values.size <= _SHOWN_VALUES and values.dtype.kind in "iub":
        return said | {"values": values.tolist()}
    return said | {"sha256": hashlib.sha256(values.tobytes()).hexdigest()}
