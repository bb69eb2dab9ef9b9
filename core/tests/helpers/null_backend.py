"""The null backend: the whole contract, and no arithmetic. Every output is zero."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from dovetail.container import WeightStore
from dovetail.ir import Array, Graph, Tensor
from dovetail.ops import OpRegistry
from dovetail.runtime.contract import (
    SUPPORTED,
    Capabilities,
    Image,
    NodeView,
    Options,
    RunControl,
    Support,
)


class NullPrepared:
    def __init__(self, nodes: tuple[str, ...]) -> None:
        self.nodes = nodes

    def run(
        self, inputs: Mapping[str, Array], outputs: Mapping[str, Array], control: RunControl
    ) -> None:
        for node in self.nodes:
            control.check()
            if control.watch is not None:
                control.watch.step_finished((node,), 0.0, {})
        for array in outputs.values():
            array.fill(0)

    def image(self) -> Image:
        return Image({"nodes": list(self.nodes)})

    def update(self, tensors: Sequence[Tensor]) -> None:
        """Nothing is computed from them."""


class NullBackend:
    name: ClassVar[str] = "null"
    options_type: ClassVar[type[Options]] = Options

    def __init__(self, ops: OpRegistry) -> None:
        self.ops = ops

    def capabilities(self) -> Capabilities:
        return Capabilities(True, True, True, True, True, True, True, True)

    def validate(self, node: NodeView) -> Support:
        return SUPPORTED

    def prepare(self, graph: Graph, options: Any, weights: WeightStore) -> NullPrepared:
        return NullPrepared(tuple(n.name for n in graph.nodes))

    def restore(self, image: Image, weights: WeightStore) -> NullPrepared:
        return NullPrepared(tuple(image.plan["nodes"]))
