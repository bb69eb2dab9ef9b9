"""Session: a model ready to run, in one object."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np

from dovetail import typed
from dovetail.api.conversion import PathLike, load_model
from dovetail.container import Model
from dovetail.errors import BackendError, unknown_name
from dovetail.ir import Array, DType, Tensor
from dovetail.ops import OpRegistry, from_real, to_real, unstorable
from dovetail.runtime import Backend, Graph, Profile, Signal
from dovetail.runtime.config_file import RunConfig, checked, load_config
from dovetail.runtime.names import backend_name


class Session:
    """A model ready to run on a backend; a context manager.

    Args:
        model: A `Model`, the path of a `.dvt` or of a file that a frontend reads, or a list of
            them, whose graphs then share one context and its packed weights.
        backend: Name of the backend.
        config: Path of a config file, or plain data of the form of our TOML.
        ops: Finds ops; by default those of all installed op packages.

    Raises:
        DovetailError: The model cannot be loaded, or the backend does not run it.
    """

    def __init__(
        self,
        model: Model | PathLike | Sequence[Model | PathLike],
        backend: str = "cpu",
        config: PathLike | Mapping[str, Any] | None = None,
        *,
        ops: OpRegistry | None = None,
    ) -> None:
        one = isinstance(model, Model | str | os.PathLike)
        given: Sequence[Model | PathLike] = [model] if one else model  # type: ignore[list-item, assignment]
        models = [m if isinstance(m, Model) else load_model(m, ops) for m in given]
        name = backend_name(backend)
        run = _run_config(config, name)
        self._backend = Backend.create(name, run.backend.get(name), ops)
        try:
            run.require_graphs(name for each in models for name in each.graphs)
            self._context = self._backend.create_context(config=run.context_config)
            for each in models:
                for graph in self._context.compose(each):
                    if (settings := run.graph_config(graph.name)).graph_priority is not None:
                        graph.set_config(settings)
                    graph.finalize()
        except BaseException:
            self.close()
            raise

    @property
    def graphs(self) -> Mapping[str, Graph]:
        """The graphs by name, as handles of `dovetail.runtime`."""
        return self._context.graphs

    @property
    def backend(self) -> Backend:
        """The backend, as a handle of `dovetail.runtime`."""
        return self._backend

    def run(
        self,
        inputs: Mapping[str, Any],
        *,
        graph: str | None = None,
        native: bool = False,
        profile: Profile | None = None,
        signal: Signal | None = None,
    ) -> dict[str, Array]:
        """Runs the model once.

        Args:
            inputs: By input name, anything that NumPy takes as an array of the input's shape. Real
                values, converted to the input's type; with `native`, stored values.
            graph: Name of the graph, where there are several.
            native: Whether inputs and outputs are stored values of the graph's types.
            profile: Takes the times.
            signal: Stops the run.

        Returns:
            The outputs by name: float32 for fixed-point types and floats of all widths (FLOAT_64 is
            rounded), integers and bools as they are; with `native`, stored values.

        Raises:
            BackendError: The inputs do not fit, or the run failed; every misfit is listed.
        """
        handle = self._graph(graph)
        tensors = {t.name: t for t in handle.inputs}
        given = {
            name: _stored(value, tensors[name]) if name in tensors and not native else value
            for name, value in inputs.items()
        }
        outputs = handle.execute(given, profile=profile, signal=signal)
        if native:
            return outputs
        return {t.name: _real(outputs[t.name], t) for t in handle.outputs}

    def close(self) -> None:
        """Frees everything; a second call does nothing."""
        if not self._backend.is_freed:
            self._backend.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _graph(self, name: str | None) -> Graph:
        self._context.require_alive()
        graphs = self.graphs
        if name is None and len(graphs) == 1:
            return next(iter(graphs.values()))
        if name is None or name not in graphs:
            wanted = "the session has several graphs" if name is None else f"no graph '{name}'"
            raise BackendError(
                wanted,
                code="GRAPH_ERROR_GRAPH_DOES_NOT_EXIST",
                hint=unknown_name(name or "", graphs),
            )
        return graphs[name]


def _run_config(config: PathLike | Mapping[str, Any] | None, backend: str) -> RunConfig:
    if config is None:
        return RunConfig()
    if isinstance(config, Mapping):
        return checked(typed.convert(dict(config), RunConfig, where="config"), backend, "config")
    return load_config(os.fspath(config), backend)


def _stored(value: Any, tensor: Tensor) -> Array:
    """Real values in a tensor's stored form; what does not fit is left to the graph to refuse."""
    array = np.asarray(value)
    if array.shape != tensor.shape or array.dtype.kind not in "fiub":
        return array
    is_whole = tensor.dtype.is_int or tensor.dtype is DType.BOOL_8
    if is_whole and (wrong := unstorable(array, tensor.dtype)).any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise BackendError(
            f"element {at} of input '{tensor.name}' is {array[at]}, "
            f"which {tensor.dtype.name} cannot hold",
            code="INPUT_INVALID",
        )
    return from_real(array, tensor.spec)


def _real(stored: Array, tensor: Tensor) -> Array:
    real = to_real(stored, tensor.spec)
    return real.astype(np.float32, copy=False) if real.dtype.kind == "f" else real
