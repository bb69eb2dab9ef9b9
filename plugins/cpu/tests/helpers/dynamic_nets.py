"""Products of bytes, less a zero point and times a scale, by weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from dovetail import testing
from dovetail.ir import Array, DType, Graph, Spec, Tensor, TensorKind
from dovetail.ops import OpRegistry
from dovetail.runtime.contract import RunControl
from dovetail_cpu import CpuBackend, CpuOptions
from dovetail_opset import PACKAGE
from dovetail_opset.build import add, static

OPS = OpRegistry.of(PACKAGE)
ROWS, DEPTH, UNITS = 5, 48, 24


class Net:
    """(q - zero) * scale by weights; bytes, zero point and scale are inputs."""

    def __init__(self) -> None:
        self.graph = Graph("net")
        self.q = self._input("q", DType.UINT_8, 1, ROWS, DEPTH)
        self.zero = self._input("zero", DType.UINT_8)
        self.scale = self._input("scale", DType.FLOAT_32)

    def _input(self, name: str, dtype: DType, *shape: int) -> Tensor:
        return self.graph.add_tensor(Tensor(name, dtype, shape, TensorKind.APP_WRITE))

    def node(self, op_type: str, *inputs: Tensor, name: str, **params: Any) -> Tensor:
        return add(self.graph, op_type, inputs, name=name, **params)

    def cast(self, x: Tensor, name: str) -> Tensor:
        return self.node("Cast", x, name=name, spec=Spec(DType.FLOAT_32, x.shape))

    def real(self, zero: Tensor | None = None, suffix: str = "") -> Tensor:
        point = self.cast(self.zero, f"z{suffix}") if zero is None else zero
        x = self.cast(self.q, f"x{suffix}")
        less = self.node("ElementWiseSubtract", x, point, name=f"less{suffix}")
        return self.node("ElementWiseMultiply", less, self.scale, name=f"times{suffix}")

    def product(
        self, real: Tensor, weights: Array, name: str = "product", bias: Array | None = None
    ) -> Tensor:
        given = {f"{name}.w": weights} | ({} if bias is None else {f"{name}.b": bias})
        tensors = [static(self.graph, each, values) for each, values in given.items()]
        return self.node("MatMul", real, *tensors, name=name)

    def run(self, last: Tensor, given: dict[str, Array], **options: Any) -> Array:
        """Return the result; the plan's groups are `steps` then, and the types they read."""
        last.kind = TensorKind.APP_READ
        prepared = testing.prepare(CpuBackend(OPS, CpuOptions(**options)), self.graph, OPS)
        outputs = {last.name: np.full(last.shape, np.nan, np.float32)}
        prepared.run(given, outputs, RunControl())
        self.steps = [step.nodes for step in prepared.steps]
        self.read_types = [{v.spec.dtype for v in step.reads} for step in prepared.steps]
        return outputs[last.name]

    def step_of(self, name: str) -> set[str]:
        """Return the nodes that run together with a node."""
        (found,) = (set(nodes) for nodes in self.steps if name in nodes)
        return found


class Dynamic(Net):
    """The same, whose bytes, zero point and scale follow from real numbers."""

    def __init__(self, most: float = 255.0, scale_shape: tuple[int, ...] = ()) -> None:
        self.graph = Graph("net")
        x = self._input("x", DType.FLOAT_32, 1, ROWS, DEPTH)
        self.numbers = [
            static(self.graph, name, np.full(scale_shape, number, np.float32))
            for name, number in (("none", 0), ("most", 255), ("one", 1))
        ]
        self.quantize(x, most)

    def quantize(self, x: Tensor, most: float = 255.0, suffix: str = "") -> None:
        zero, *_ = self.numbers
        axes = {"axes": [0, 1, 2], "keep_dims": False}
        low = self.node("ReduceMin", x, name=f"least{suffix}", **axes)
        low = self.node("ElementWiseMinimum", low, zero, name=f"low{suffix}")
        high = self.node("ReduceMax", x, name=f"greatest{suffix}", **axes)
        high = self.node("ElementWiseMaximum", high, zero, name=f"high{suffix}")
        self.scale_of(low, high, suffix)
        self.q = self.stored(x, most, suffix)

    def scale_of(self, low: Tensor, high: Tensor, suffix: str = "") -> None:
        """Set the scale and the zero point of numbers between two."""
        zero, most_steps, one = self.numbers
        extent = self.node("ElementWiseSubtract", high, low, name=f"extent{suffix}")
        self.scale = self.node(
            "ElementWiseSelect",
            self.node("ElementWiseEqual", extent, zero, name=f"is_0{suffix}"),
            one,
            self.node("ElementWiseDivide", extent, most_steps, name=f"step{suffix}"),
            name=f"scale{suffix}",
        )
        point = self.node("ElementWiseNeg", low, name=f"minus{suffix}")
        point = self.node("ElementWiseDivide", point, self.scale, name=f"at{suffix}")
        point = self.node("ElementWiseRound", point, name=f"whole{suffix}")
        self.zero = self._clipped(f"zero{suffix}", point, 255.0)

    def stored(self, x: Tensor, most: float = 255.0, suffix: str = "") -> Tensor:
        y = self.node("ElementWiseDivide", x, self.scale, name=f"quotient{suffix}")
        y = self.node("ElementWiseRound", y, name=f"round{suffix}")
        point = self.cast(self.zero, f"point{suffix}")
        y = self.node("ElementWiseAdd", y, point, name=f"shift{suffix}")
        return self._clipped(f"q{suffix}", y, most)

    def _clipped(self, name: str, x: Tensor, most: float) -> Tensor:
        params = {"min_value": 0.0, "max_value": most}
        y = self.node("ReluMinMax", x, name=f"{name}.clip", **params)
        return self.node("Cast", y, name=name, spec=Spec(DType.UINT_8, x.shape))
