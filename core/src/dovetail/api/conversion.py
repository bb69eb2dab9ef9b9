"""Conversion: a model file through its frontend and the passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec

import dovetail
from dovetail.api.pipeline import pass_options, pipeline_passes
from dovetail.api.plugin_options import options_for, options_text
from dovetail.api.shape_sets import shape_sets
from dovetail.api.updateability import UpdatableMode, make_encodings_updateable
from dovetail.arguments import check_arguments, without_numpy
from dovetail.collecting import collection_paused
from dovetail.container import Model, Producer, hash_source, is_container
from dovetail.errors import ConfigError, FrontendError, PluginError
from dovetail.files import PathLike, open_regular, unreadable
from dovetail.ir import Graph, Pass, Shape, run_passes, share_blobs
from dovetail.ops import OpRegistry, check_ops, find_op_faults
from dovetail.ops.frontend import Frontend, FrontendOptions
from dovetail.plugins import load as load_plugin
from dovetail.plugins import load_usable
from dovetail.plugins import names as plugin_names
from dovetail.plugins.events import PassFinished
from dovetail.plugins.hooks import hooks
from dovetail.plugins.ops import installed_ops
from dovetail.runtime.names import reject_foreign

_FRONTENDS = "dovetail.frontends"
MODE_OPTION = "quant_updatable_mode"  # in `Producer.options`


@check_arguments
def convert(
    path: PathLike,
    options: FrontendOptions | None = None,
    *,
    name: str | None = None,
    shapes: Mapping[str, Sequence[Shape]] | None = None,
    before: Sequence[Pass] = (),
    optimize: bool = True,
    passes: str = "",
    ops: OpRegistry | None = None,
    input_format: str | None = None,
    quant_updatable_mode: UpdatableMode = "none",
    on_read: Callable[[Graph], None] | None = None,
) -> Model:
    """Convert a model file.

    Args:
        path: The file.
        options: Shapes, outputs and the like: a `FrontendOptions`, or an object of the frontend's
            own `options_type`.
        name: Name of the only graph; by default the one that the frontend chooses.
        shapes: Several shapes of inputs, in the order of the graphs: the model is converted for
            each. Graphs share their weights, and their names end in their shapes. An input with one
            shape has it in all graphs.
        before: Passes that run first, also without `optimize`.
        optimize: Whether the passes run; otherwise only those that `passes` adds.
        passes: Changes of the passes, for example `-fold-batchnorm,+my-pass{limit=3}`; see
            `dovetail.api.pipeline.pipeline_passes`.
        ops: The ops; by default those of all installed op packages.
        input_format: Name of the frontend; by default it is found by suffix, then by content.
        quant_updatable_mode: The tensors whose encodings adapters may replace, besides those of
            updateable weights; see `dovetail.api.updateability`.
        on_read: Called with each graph as the frontend reads it, before the passes.

    Raises:
        FrontendError: No frontend reads the file, or it is damaged.
        UnsupportedOpError: It has operators that nothing converts; all are listed.
        GraphError: A node does not match its op, or a pass broke the graph.
        PluginError: Several dists claim an op package that the model uses, or the frontend does
            not meet its contract.
        ConfigError: The options do not match the model or the frontend (USAGE).
    """
    source = Path(path)
    registry = installed_ops() if ops is None else ops
    frontend = find_frontend(source, input_format)
    options = options_for(frontend, options)
    steps = (*before, *pipeline_passes(passes, only_chosen=not optimize))
    hashed = _in_thread(lambda: hash_source(source))  # which leaves the interpreter to the rest
    graphs: list[Graph] = []
    with collection_paused():
        for each in shape_sets(shapes or {}):
            dims = dict(options.input_dims) | dict(each.dims)
            chosen = msgspec.structs.replace(options, input_dims=dims)
            read = partial(_read, frontend, source, chosen, registry, name, each.suffix)
            graphs += _optimized(read, steps, registry, on_read)
    for graph in graphs:
        make_encodings_updateable(graph, quant_updatable_mode, registry)
    if len(graphs) > 1:
        share_blobs(graphs)
    said = options_text(options) | _steps_text(before, passes, shapes)
    said |= {} if quant_updatable_mode == "none" else {MODE_OPTION: quant_updatable_mode}
    producer = Producer("dovetail", dovetail.__version__, source.name, hashed.result(), said)
    return Model.of(*graphs, producer=producer, registry=registry)


def _in_thread(work: Callable[[], str]) -> Future[str]:
    pool = ThreadPoolExecutor(1, "conversion")
    started = pool.submit(work)
    pool.shutdown(wait=False)  # the thread ends with the work
    return started


def _read(
    frontend: Frontend,
    source: Path,
    options: FrontendOptions,
    ops: OpRegistry,
    name: str | None,
    suffix: str,
) -> list[Graph]:
    """Return what a frontend reads, under the names of a conversion.

    Raises:
        PluginError: It returns anything but graphs with different names.
    """
    found: object = frontend.read(source, options, ops)
    graphs = list(found) if isinstance(found, Sequence) else []
    names = {graph.name for graph in graphs if isinstance(graph, Graph)}
    if not graphs or len(names) < len(graphs):
        raise PluginError(
            "`read` must return a sequence of graphs with different names, "
            f"got {type(found).__name__}",
            code="PLUGIN_BROKEN",
            where=f"{_FRONTENDS} '{frontend.name}'",
        )
    _rename(graphs, name, suffix, source)
    _require_constants(options, graphs, source)
    return graphs


def _steps_text(
    before: Sequence[Pass], passes: str, shapes: Mapping[str, Sequence[Shape]] | None
) -> dict[str, str]:
    """Return what else determines the graphs, as text for the manifest."""
    said: dict[str, Any] = {step.name: pass_options(step) for step in before}
    if shapes:
        said["shapes"] = without_numpy(shapes)
    text = {
        name: msgspec.json.encode(value, order="sorted").decode() for name, value in said.items()
    }
    return text | ({"passes": passes} if passes else {})


def _rename(graphs: Sequence[Graph], name: str | None, suffix: str, source: Path) -> None:
    if name is not None and len(graphs) > 1:
        names = ", ".join(graph.name for graph in graphs)
        raise ConfigError(
            f"the name '{name}' is given for {len(graphs)} graphs: {names}",
            code="USAGE",
            where=str(source),
            hint="omit the name",
        )
    for graph in graphs:
        graph.name = (name or graph.name) + suffix


def _optimized(
    read: Callable[[], list[Graph]],
    steps: Sequence[Pass],
    ops: OpRegistry,
    on_read: Callable[[Graph], None] | None,
) -> list[Graph]:
    """Return what the frontend reads after the passes.

    A check takes longer than most passes. So there is one, of the result; if it finds a fault or a
    pass fails, all is done again with a check after each step, to name the one at fault. That is
    not a pass that rejects its options.
    """
    graphs = read()
    if on_read is not None:
        for graph in graphs:
            on_read(graph)
    try:
        for graph in graphs:
            _run(graph, steps)
            check_ops(graph, ops)
    except ConfigError:
        raise
    except Exception:
        for graph in read():
            check_ops(graph, ops)
            run_passes(graph, steps, check=partial(find_op_faults, registry=ops))
        raise  # the passes are not to blame, or do not do the same again
    return graphs


def _run(graph: Graph, steps: Sequence[Pass]) -> None:
    """Run passes, unchecked."""
    before = _sources(graph)
    run_passes(
        graph,
        steps,
        check=None,
        finished=lambda step, changed, ms: _finished(graph.name, step, changed, ms),
    )
    graph.removed_sources |= before - _sources(graph)


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
        with open_regular(path):  # a pipe cannot be read twice, and a device has no end
            pass
    except OSError as error:
        raise unreadable(path, error) from error
    if input_format is not None:
        return cast("type[Frontend]", load_plugin(_FRONTENDS, input_format))()
    if is_container(path):
        raise FrontendError(
            "the file is already a Dovetail container; there is nothing to convert",
            where=str(path),
            hint="load or run it, or write another format by `dovetail export`",
        )
    broken = ""
    suffixes: set[str] = set()
    suffix = path.suffix.lower()
    # the likely one first: it may be the only one that has to be loaded
    for name in sorted(plugin_names(_FRONTENDS), key=lambda name: f".{name}" != suffix):
        loaded = load_usable(_FRONTENDS, name)
        if loaded is None:
            broken = broken or name
            continue
        frontend = cast("type[Frontend]", loaded)()
        suffixes.update(frontend.suffixes)
        if suffix in frontend.suffixes or frontend.recognises(path):
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


def _sources(graph: Graph) -> frozenset[str]:
    return frozenset(tensor.source for tensor in graph.tensors.values())


def _finished(graph: str, step: str, changed: bool, ms: float) -> None:
    if hooks.active:
        hooks.pass_finished(PassFinished(graph, step, changed, ms))


def _require_constants(options: FrontendOptions, graphs: Sequence[Graph], source: Path) -> None:
    """Raise if the frontend did not replace inputs by their `input_values`."""
    inputs = {tensor.name for graph in graphs for tensor in graph.inputs}
    if left := sorted(options.input_values.keys() & inputs):
        raise FrontendError(
            f"the frontend for this format cannot turn inputs into constants: {', '.join(left)}",
            where=str(source),
            hint="omit `input_values` and `specialize`, or fix the values in the model",
        )
