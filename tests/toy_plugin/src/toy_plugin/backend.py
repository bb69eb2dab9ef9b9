"""The backend `toy`: runs every op by its reference, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

import numpy as np

from dovetail.container import WeightStore
from dovetail.errors import BackendError
from dovetail.ir import Array, Graph, Tensor
from dovetail.ops import OpRegistry, simulate
from dovetail.runtime.contract import (
    SUPPORTED,
    Capabilities,
    Image,
    NodeView,
    Options,
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


class ToyBackend:
    """A backend in one page."""

    name = "toy"
    options_type = ToyOptions

    def __init__(self, ops: OpRegistry) -> None:
        self._ops = ops

    def capabilities(self) -> Capabilities:
        """Return what it can do: ops of any package, and stopping between nodes."""
        return Capabilities(op_packages=True, cancel=True)

    def validate(self, node: NodeView) -> Support:
        """Return whether it runs a node: up to rank 4."""
        for i, spec in enumerate(node.ins):
            if spec is not None and len(spec.shape) > MAX_RANK:
                allowed = (f"up to {MAX_RANK}",)
                return Support(False, "rank", f"in[{i}].rank", str(len(spec.shape)), allowed)
        return SUPPORTED

    def prepare(self, graph: Graph, options: ToyOptions, weights: WeightStore) -> ToyPrepared:
        """Create a graph ready to run."""
        return ToyPrepared(graph, [NodeView.of(n, self._ops) for n in graph.nodes], options)

    def restore(self, image: Image, weights: WeightStore) -> NoReturn:
        """Raise: context binaries are not supported."""
        raise _not_supported("caching")

    def doctor(self) -> list[str]:
        """Return a line about the installation."""
        return [f"runs tensors up to rank {MAX_RANK}"]


class ToyPrepared:
    """A graph of references."""

    def __init__(self, graph: Graph, views: Sequence[NodeView], options: ToyOptions) -> None:
        self._views = views
        self._options = options
        self._constants = {
            tensor: tensor.stored() for tensor in graph.tensors.values() if tensor.data is not None
        }

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

    def image(self) -> NoReturn:
        """Raise: context binaries are not supported."""
        raise _not_supported("caching")

    def update(self, tensors: Sequence[Tensor]) -> NoReturn:
        """Raise: updateable tensors are not supported."""
        raise _not_supported("updates")

    def _check(self, view: NodeView, result: Array) -> None:
        if self._options.refuse_nan and result.dtype.kind == "f" and np.isnan(result).any():
            raise BackendError("a result is not a number", where=view.node.where)


def _simulated(view: NodeView, arrays: Sequence[Array | None]) -> tuple[Array, ...]:
    try:
        return simulate(view.schema, view.op, arrays, view.ins, view.outs)
    except Exception as error:
        raise BackendError(
            f"an op failed: {type(error).__name__}: {error}", where=view.node.where
        ) from error


def _not_supported(capability: str) -> BackendError:
    return BackendError(
        f"the toy backend has not the capability '{capability}'", code="COMMON_ERROR_NOT_SUPPORTED"
    )
