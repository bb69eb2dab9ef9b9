"""Random networks as a frontend of a channels-first format makes them."""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

from dovetail.ir import Array, DType, Graph, Pass, Spec, Tensor, TensorKind, find_faults
from dovetail_opset.build import add, add_all, static
from dovetail_opset.ops.unary import Unary

LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


class Maker:
    """Adds random channels-first steps to a graph."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.graph = Graph("net")
        self.values: list[Tensor] = []
        self.count = 0
        self.input("x")

    def input(self, name: str) -> Tensor:
        x = Tensor(name, DType.FLOAT_32, (2, 4, 6, 5), TensorKind.APP_WRITE)
        self.values.append(self.graph.add_tensor(x))
        return x

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def constant(self, *shape: int) -> Tensor:
        values = self.rng.uniform(0.5, 1.5, shape).astype(np.float32)
        return static(self.graph, f"{self.name()}.const", values)

    def step(self, op_type: str, *inputs: Tensor | None, **params: Any) -> Tensor:
        y = add(self.graph, op_type, inputs, name=self.name(), **params)
        self.values.append(y)
        return y

    def spatial(self, op_type: str, x: Tensor, *weights: Tensor, **params: Any) -> Tensor:
        """Put a channels-last op between two transposes, sources set as frontends do."""
        name = self.name()
        inner = add(self.graph, "Transpose", [x], name=f"{name}.in", perm=LAST)
        inner.source, inner.source_perm = x.source, LAST
        y = add(self.graph, op_type, [inner, *weights], name=f"{name}.op", **params)
        y.source, y.source_perm = name, LAST
        back = add(self.graph, "Transpose", [y], name=name, perm=FIRST)
        self.values.append(back)
        return back

    def conv(self, x: Tensor, channels: int = 0) -> Tensor:
        c, k = x.shape[1], channels or int(self.rng.integers(2, 5))
        w, b = self.constant(3, 3, c, k), self.constant(k)
        pads = [(1, 1), (1, 1)]
        return self.spatial("Conv2d", x, w, b, stride=(1, 1), pad_amount=pads)

    def batchnorm(self, x: Tensor) -> Tensor:
        c = x.shape[1]
        return self.spatial("Batchnorm", x, self.constant(c), self.constant(c))

    def pool(self, x: Tensor) -> Tensor:
        params = {"filter_size": (3, 3), "stride": (1, 1), "pad_amount": [(1, 1), (1, 1)]}
        return self.spatial("PoolAvg2d", x, **params)

    def pair(self, x: Tensor) -> Tensor:
        same = [t for t in self.values if t.shape == x.shape]
        other = same[int(self.rng.integers(len(same)))]
        return self.step("ElementWiseAdd", x, other)

    def split(self, x: Tensor) -> Tensor:
        if x.shape[1] < 2:
            return x
        a, b = add_all(self.graph, "Split", [x], name=self.name(), axis=1, split_index=[1])
        return self.step("Concat", b, a, axis=1)

    def gate(self, x: Tensor) -> Tensor:
        mean = self.step("ReduceMean", x, axes=[2, 3], keep_dims=True)
        return self.step("ElementWiseMultiply", x, self.step("Sigmoid", mean))

    def layer_norm(self, x: Tensor) -> Tensor:
        extents = (x.shape[3], x.shape[1])
        gamma, beta = self.constant(*extents), self.constant(*extents)
        return self.step("LayerNorm", x, gamma, beta, axes=[3, 1])

    def tokens(self, x: Tensor) -> Tensor:
        """Add a block of a transformer: pixels become a sequence, and an image again."""
        n, c, *space = x.shape
        flat = self.step("Reshape", x, spec=Spec(x.dtype, (n, c, math.prod(space))))
        line = self.step("Transpose", flat, perm=[0, 2, 1])
        line = self.step("LayerNorm", line, self.constant(c), self.constant(c), axes=[2])
        if self.rng.integers(2):
            line = self.step("MatMul", line, self.constant(c, c))
        turned = self.step("Transpose", line, perm=[0, 2, 1])
        return self.step("Reshape", turned, spec=Spec(x.dtype, x.shape))

    def hard_swish(self, x: Tensor) -> Tensor:
        three, six = (static(self.graph, "n", np.array([n], np.float32)) for n in (3, 6))
        gate = self.step("Relu6", self.step("ElementWiseAdd", three, x))
        return self.step("ElementWiseDivide", self.step("ElementWiseMultiply", x, gate), six)

    def choose(self, x: Tensor) -> Tensor:
        pair = [x, self.constant(x.shape[1], 1, 1)]
        above = add(self.graph, "ElementWiseGreater", pair, name=self.name())  # no number
        return self.step("ElementWiseSelect", above, self.constant(1, 1, 1, x.shape[3]), x)

    def permute(self, x: Tensor) -> Tensor:
        indices = self.rng.integers(0, x.shape[1], x.shape).astype(np.int32)
        constant = static(self.graph, f"{self.name()}.const", indices)
        return self.step("GatherElements", x, constant, axis=1)

    STEPS: ClassVar[dict[str, Callable[["Maker", Tensor], Tensor]]] = {
        "conv": conv,
        "batchnorm": batchnorm,
        "pool": pool,
        "pair": pair,
        "split": split,
        "gate": gate,
        "layer_norm": layer_norm,
        "tokens": tokens,
        "relu": lambda m, x: m.step("Relu", x),
        "gelu": lambda m, x: m.step("Gelu", x),
        "softmax": lambda m, x: m.step("Softmax", x, axis=1),
        "scale": lambda m, x: m.step("ElementWiseMultiply", m.constant(x.shape[1], 1, 1), x),
        "shift": lambda m, x: m.step("ElementWiseAdd", x, m.constant(1)),
        "row": lambda m, x: m.step("ElementWiseSubtract", x, m.constant(x.shape[3])),
        "concat": lambda m, x: m.step("Concat", x, x, axis=1),
        "shuffle": lambda m, x: m.step("ChannelShuffle", x, axis=1, num_groups=2 - x.shape[1] % 2),
        "tile": lambda m, x: m.step(
            "Tile", x, multiples=[1, 2, 1, 1] if x.shape[1] < 9 else [1] * 4
        ),
        "prelu": lambda m, x: m.step("Prelu", x, m.constant(x.shape[1], 1, 1)),
        "cumulate": lambda m, x: m.step("CumulativeSum", x, axis=1, exclusive=True),
        "l2_norm": lambda m, x: m.step("L2Norm", x, axis=1),
        "log_softmax": lambda m, x: m.step("LogSoftmax", x, axis=1),
        "swish": lambda m, x: m.step("ElementWiseMultiply", x, m.step("Sigmoid", x)),
        "hard_swish": hard_swish,
        "choose": choose,
        "permute": permute,
        "pad": lambda m, x: m.step(
            "Pad", x, scheme=0, pad_amount=[(0, 0), (0, 1), (1, 0), (0, 2)], pad_constant_value=0.5
        ),
        "slice": lambda m, x: m.step(
            "StridedSlice", x, ranges=[(0, 9, 1), (0, 3, 1), (1, 9, 1), (4, 9, -1)], end_mask=0b1001
        ),
    }

    def finish(self, *tensors: Tensor) -> Graph:
        for tensor in tensors:
            if not tensor.kind.is_input:
                tensor.kind = TensorKind.APP_READ
        assert not find_faults(self.graph)
        return self.graph


def random_network(seed: int, steps: int = 8, without: str = "") -> Graph:
    maker = Maker(seed)
    names = sorted({*Maker.STEPS} - {without})
    x = maker.values[0]
    for _ in range(steps):
        x = Maker.STEPS[names[int(maker.rng.integers(len(names)))]](maker, x)
    return maker.finish(maker.step("Relu", x), maker.values[len(maker.values) // 2])


def feeds_of(graph: Graph, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {t.name: rng.standard_normal(t.shape, np.float32) for t in graph.inputs}


@pytest.fixture(scope="session")
def network() -> Callable[..., Graph]:
    return random_network


@pytest.fixture(scope="session")
def feeds() -> Callable[..., dict[str, Array]]:
    return feeds_of


@pytest.fixture(scope="session")
def maker() -> type[Maker]:
    return Maker


PADS = {axes: {"stride": (1,) * axes, "pad_amount": [(0, 0)] * axes} for axes in (2, 3)}
LINE = {"stride": 1, "pad_amount": (0, 0)}
# The shape of the weights, and params.
LAYERS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "Conv1d": ((2, 4, 6), LINE),
    "Conv2d": ((2, 2, 4, 6), PADS[2]),
    "Conv3d": ((2, 2, 1, 4, 6), PADS[3]),
    "DepthWiseConv1d": ((2, 1, 8), LINE),
    "DepthWiseConv2d": ((2, 2, 1, 8), PADS[2]),
    "TransposeConv1d": ((2, 4, 6), LINE | {"stride": 2}),
    "TransposeConv2d": ((2, 2, 4, 6), PADS[2] | {"stride": (2, 2)}),
    "TransposeConv3d": ((2, 2, 1, 4, 6), PADS[3] | {"stride": (1, 2, 1)}),
    "FullyConnected": ((6, 4), {"keep_dims": True}),
    "MatMul": ((4, 6), {}),
}


class Net:
    """A graph of one input, (2, 3, 5, 4) at first, and whatever a test adds."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(7)
        self.graph = Graph("g")
        self.x = self.input(2, 3, 5, 4)

    def input(self, *shape: int) -> Tensor:
        """Return the only input, of another shape."""
        self.graph = Graph("g")
        self.x = Tensor("x", DType.FLOAT_32, shape, TensorKind.APP_WRITE)
        return self.graph.add_tensor(self.x)

    def constant(self, *shape: int) -> Tensor:
        values = self.rng.uniform(0.5, 2, shape).astype(np.float32)
        return static(self.graph, "c", values)

    def layer(self, op_type: str, *, bias: bool = True) -> Tensor:
        """Add a layer with six channels, eight if it works on each channel alone."""
        shape, params = LAYERS[op_type]
        rank = len(shape) if "Conv" in op_type else 4
        if rank != 4:
            self.input(*{3: (2, 15, 4), 5: (2, 3, 5, 2, 4)}[rank])
        channels = shape[0] if op_type == "FullyConnected" else shape[-1]
        inputs = [self.x, self.constant(*shape), *([self.constant(channels)] if bias else [])]
        return add(self.graph, op_type, inputs, name="layer", **params)

    def step(self, op_type: str, *inputs: Tensor, **params: Any) -> Tensor:
        return add(self.graph, op_type, inputs, name="step", **params)

    def inverse_root(self, x: Tensor, spelling: str) -> Tensor:
        """Add 1 / sqrt(x) in a spelling."""
        if spelling == "rsqrt":
            return self.step("ElementWiseRsqrt", x)
        if spelling == "power":
            return self.step("ElementWisePower", x, self.number(-0.5))
        root = self.step("ElementWiseSquareRoot", x)
        if spelling == "reciprocal":
            return self.step("ElementWiseUnary", root, operation=int(Unary.RECIPROCAL))
        return self.step("ElementWiseDivide", self.number(1), root)

    def number(self, value: float, *shape: int) -> Tensor:
        return static(self.graph, "number", np.full(shape, value, np.float32))

    def ops(self) -> list[str]:
        return [node.op_type for node in self.graph.nodes]

    def untouched(self, run: Pass) -> None:
        """Check that a pass leaves the graph as it is, to the last param."""
        before = [(n, n.op_type, n.inputs, n.outputs, dict(n.params)) for n in self.graph.nodes]
        assert not run.run(self.graph)
        after = [(n, n.op_type, n.inputs, n.outputs, dict(n.params)) for n in self.graph.nodes]
        assert after == before

    def check(self, out: Tensor, run: Pass, evaluate: Callable[..., Any]) -> list[str]:
        """Run a pass, which keeps values and changes nothing the second time; return the ops."""
        out.kind = TensorKind.APP_READ
        feed = {"x": self.rng.standard_normal(self.x.shape, np.float32)}
        before = evaluate(self.graph, feed)[out.name]
        assert run.run(self.graph)
        assert not find_faults(self.graph)
        after: Array = evaluate(self.graph, feed)[out.name]
        # weights are rounded once more than before, sums made otherwise: a few steps of a float32
        np.testing.assert_allclose(after, before, rtol=2e-5, atol=1e-5)
        assert not run.run(self.graph)
        return self.ops()


@pytest.fixture
def net() -> Net:
    return Net()
