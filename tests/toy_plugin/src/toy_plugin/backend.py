"""The backend `toy`: runs every op by its reference, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dovetail.errors import BackendError
from dovetail.ir import Array, Tensor
from dovetail.ops import CheckedGraph, NodeView, simulate
from dovetail.runtime.base import BackendBase, ContextBase, PreparedBase
from dovetail.runtime.contract import (
    SUPPORTED,
    Capabilities,
    Configs,
    Options,
    Platform,
    PrepareRequest,
    RunControl,
    Support,
)

MAX_RANK = 4


class ToyOptions(Options, frozen=True):
    """Options of the toy backend.

    Attributes:
        refuse_nan: Whether a node that makes a NaN of its inputs ends the run.
    """

    refuse_nan: bool = False


class ToyBackend(BackendBase):
    """A backend in one page."""

    name = "toy"
    configs = Configs(backend=ToyOptions)

    def capabilities(self) -> Capabilities:
        """Return what it can do: ops of any package, and stopping between nodes."""
        return Capabilities(op_packages=True, cancel=True)

    def validate(self, node: NodeView, device: Any, config: Any) -> Support:
        """Return whether it runs a node: up to rank 4."""
        for i, spec in enumerate(node.ins):
            if spec is not None and len(spec.shape) > MAX_RANK:
                allowed = (f"up to {MAX_RANK}",)
                return Support(False, "rank", f"in[{i}].rank", str(len(spec.shape)), allowed)
        return SUPPORTED

    def prepare(
        self, graph: CheckedGraph, request: PrepareRequest, context: ContextBase
    ) -> ToyPrepared:
        """Create a graph ready to run."""
        return ToyPrepared(graph, self.options)

    def platform(self) -> Platform:
        """Return a line about the installation."""
        return Platform(notes=(f"runs tensors up to rank {MAX_RANK}",))


class ToyPrepared(PreparedBase):
    """A graph of references."""

    def __init__(self, graph: CheckedGraph, options: ToyOptions) -> None:
        self._views = graph.nodes
        self._options = options
        self._constants = {t: t.stored() for t in graph.tensors() if t.data is not None}

    def run(
        self, inputs: Mapping[str, Array], outputs: Mapping[str, Array], control: RunControl
    ) -> None:
        """Execute the graph once."""
        values: dict[Tensor, Array] = dict(self._constants)
        for view in self._views:
            control.check()
            arrays = [
                None
                if spec is None or tensor is None
                else values.get(tensor, inputs.get(tensor.name))
                for tensor, spec in zip(view.node.inputs, view.ins, strict=True)
            ]
            results = _simulated(view, arrays)
            for tensor, result in zip(view.node.outputs, results, strict=True):
                self._check(view, result)
                values[tensor] = result
                if tensor.name in outputs:
                    np.copyto(outputs[tensor.name], result)

    def _check(self, view: NodeView, result: Array) -> None:
        if self._options.refuse_nan and result.dtype.kind == "f" and np.isnan(result).any():
            raise BackendError("a result is not a number", where=view.node.where)


def _simulated(view: NodeView, arrays: Sequence[Array | None]) -> tuple[Array, ...]:
    try:
        return simulate(*view.definition, arrays, view.ins, view.outs)
    except Exception as error:
        raise BackendError(
            f"an op failed: {type(error).__name__}: {error}", where=view.node.where
        ) from error
