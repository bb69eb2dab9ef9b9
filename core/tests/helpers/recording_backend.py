"""A backend that records graphs and runs, of any op packages, and computes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dovetail.container import WeightStore
from dovetail.ir import Array, Scalar
from dovetail.ops import CheckedGraph, NodeView
from dovetail.runtime.base import BackendBase, ContextBase, PreparedBase
from dovetail.runtime.contract import Capabilities, PrepareRequest, RunControl

Line = dict[str, Any]  # of JSON types


@dataclass
class Recording(PreparedBase):
    """A recorded graph, which records its runs.

    Attributes:
        name: Name of the graph.
        write: Receives each line.
    """

    name: str
    write: Callable[[Line], None]

    def run(
        self, inputs: Mapping[str, Array], outputs: Mapping[str, Array], control: RunControl
    ) -> None:
        control.check()
        self.write({"run": self.name, "bytes": {n: a.tobytes().hex() for n, a in inputs.items()}})
        for array in outputs.values():
            array.fill(0)

    def close(self) -> None:
        self.write({"close": self.name})


class Tape(ContextBase):
    """A context with its record."""

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self.lines: list[Line] = []

    def close(self) -> None:
        self.lines.append({"close": ""})


def line_of(view: NodeView) -> Line:
    """Return a node as its graph declares it, with or without an op package."""
    node = view.node
    scalars = {n: p.value for n, p in node.params.items() if isinstance(p, Scalar)}
    return {
        "node": node.name,
        "op": f"{view.package}::{view.op_type}",
        "is_opaque": view.is_opaque,
        "ins": [None if s is None else f"{s.dtype.name} {list(s.shape)}" for s in view.ins],
        "outs": [f"{s.dtype.name} {list(s.shape)}" for s in view.outs],
        "params": scalars,
    }


class RecordingBackend(BackendBase):
    name: ClassVar[str] = "recording"

    def capabilities(self) -> Capabilities:
        return Capabilities(op_packages=True, opaque_ops=True, cancel=True)

    def open_context(self, device: object, config: object, weights: WeightStore) -> Tape:
        return Tape(self, device, config, weights)

    def prepare(
        self, graph: CheckedGraph, request: PrepareRequest, context: ContextBase
    ) -> Recording:
        assert isinstance(context, Tape)
        for view in graph.nodes:
            request.control.check()
            context.lines.append({"graph": graph.name, **line_of(view)})
        return Recording(graph.name, context.lines.append)
