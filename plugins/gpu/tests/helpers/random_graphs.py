"""Random graphs of the ops that the SDK's GPU backend has.

Ops whose result jumps, such as comparisons and Argmax, read values that were only moved since they
were given: a difference in the last digit would change everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dovetail.ir import Array, DType, Graph, Shape, Spec, Tensor, TensorKind
from dovetail_opset.build import add, add_all, static

F32, I32 = DType.FLOAT_32, DType.INT_32
_SMOOTH = (  # of any real number, growing no faster than it
    *("Relu", "Relu1", "Relu6", "Sigmoid", "Tanh", "Gelu", "HardSwish", "Elu"),
    *("ElementWiseAbs", "ElementWiseNeg", "ElementWiseSin", "ElementWiseCos"),
)
_JUMPING = ("ElementWiseFloor", "ElementWiseRound")
_POSITIVE = ("ElementWiseLog", "ElementWiseSquareRoot", "ElementWiseRsqrt")
_SUMS = ("ElementWiseAdd", "ElementWiseSubtract", "ElementWiseMaximum", "ElementWiseMinimum")
_COMPARISONS = ("Equal", "NotEqual", "Greater", "GreaterEqual", "Less", "LessEqual")
_REDUCTIONS = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd")
_LARGEST = 4096  # elements of a value


class Maker:
    """Adds random nodes to a graph.

    Attributes:
        graph: The graph.
        values: Its real values, in order.
        ops: The ops of its nodes.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.graph = Graph("net")
        self.values: list[Tensor] = []
        self.ops: list[str] = []
        self._exact: list[Tensor] = []  # only moved since they were given
        self._count = 0
        for _ in range(int(self.rng.integers(1, 3))):
            self._input(4)
        self._input(int(self.rng.integers(1, 4)))

    def grow(self, steps: int) -> Graph:
        """Add nodes, and return the graph; values that nothing reads are its outputs."""
        for _ in range(steps):
            choices = [_STEPS[int(i)] for i in self.rng.permutation(len(_STEPS))]
            next(made for choice in choices if (made := choice(self)))
        read = {t for node in self.graph.nodes for t in node.inputs}
        for node in self.graph.nodes:
            for tensor in node.outputs:
                if tensor not in read:
                    tensor.kind = TensorKind.APP_READ
        return self.graph

    # -- values ----------------------------------------------------------------------------------

    def _input(self, rank: int) -> None:
        shape = tuple(int(n) for n in self.rng.integers(1, 9, rank))
        x = Tensor(f"x{len(self.values)}", F32, shape, TensorKind.APP_WRITE)
        self.values.append(self.graph.add_tensor(x))
        self._exact.append(x)

    def any(self, rank: int | None = None, *, exact: bool = False, least: int = 1) -> Tensor | None:
        """Return one of the values, late ones more often; None if none has this rank."""
        known = self._exact if exact else self.values
        fitting = [t for t in known if rank is None or len(t.shape) == rank]
        fitting = [t for t in fitting if len(t.shape) >= least]
        if not fitting:
            return None
        return fitting[-1 - min(int(self.rng.exponential(2)), len(fitting) - 1)]

    def constant(self, *shape: int, low: float = -1, high: float = 1) -> Tensor:
        """Return a constant of numbers between limits."""
        return static(self.graph, self._name("c"), self.rng.uniform(low, high, shape).astype("f4"))

    def node(self, op: str, *inputs: Tensor | None, exact: bool = False, **params: Any) -> bool:
        """Add a node with one output."""
        self.ops.append(op)
        y = add(self.graph, op, inputs, name=self._name(op), **params)
        self.keep(y, exact=exact)
        return True

    def nodes(self, op: str, *inputs: Tensor, exact: bool = False, **params: Any) -> bool:
        """Add a node with several outputs."""
        self.ops.append(op)
        for y in add_all(self.graph, op, list(inputs), name=self._name(op), **params):
            self.keep(y, exact=exact)
        return True

    def keep(self, y: Tensor, *, exact: bool = False) -> None:
        """Let later nodes read a real value that is small enough."""
        if y.dtype is F32 and np.prod(y.shape) <= _LARGEST:
            self.values.append(y)
            if exact:
                self._exact.append(y)

    def number(self, low: int, high: int) -> int:
        """Return a random integer from low to high, both included."""
        return int(self.rng.integers(low, high + 1))

    def one(self, *choices: Any) -> Any:
        """Return one of the choices."""
        return choices[self.number(0, len(choices) - 1)]

    def truth(self) -> bool:
        """Return a random truth value."""
        return bool(self.rng.integers(2))

    def _name(self, text: str) -> str:
        self._count += 1
        return f"{text}_{self._count}"


def random_graph(seed: int, steps: int = 6) -> tuple[Graph, dict[str, Array], list[str]]:
    """Return a graph, values of its inputs, and the ops of its nodes."""
    maker = Maker(seed)
    graph = maker.grow(steps)
    rng = np.random.default_rng(seed + 1)
    feeds = {t.name: rng.uniform(-2, 2, t.shape).astype(np.float32) for t in graph.inputs}
    return graph, feeds, maker.ops


# -- steps: each adds a node and returns True, or False if no value suits it ----------------------


def _smooth(m: Maker) -> bool:
    x, op = m.any(), m.one(*_SMOOTH, "ReluMinMax", "Prelu", "ElementWiseNeuron", "ElementWiseUnary")
    if x is None:
        return False
    if op == "ReluMinMax":
        return m.node(op, x, min_value=-0.5, max_value=1.5)
    if op == "Prelu":
        return bool(x.shape) and m.node(op, x, m.constant(x.shape[-1]))
    if op == "ElementWiseNeuron":
        return m.node(op, x, operation=m.one(0, 1, 2, 3, 4, 6, 7, 8))
    if op == "ElementWiseUnary":
        return m.node(op, x, operation=m.one(0, 4, 8))
    return m.node(op, x)


def _positive(m: Maker) -> bool:
    x = m.any()
    if x is None:
        return False
    square = add(m.graph, "ElementWiseMultiply", [x, x], name=m._name("square"))
    shifted = add(m.graph, "ElementWiseAdd", [square, m.constant(1, low=0.5, high=2)], name="up")
    return m.node(m.one(*_POSITIVE), shifted)


def _exponential(m: Maker) -> bool:
    x = m.any()
    return x is not None and m.node("ElementWiseExp", add(m.graph, "Tanh", [x], name="bound"))


def _jumping(m: Maker) -> bool:
    x = m.any(exact=True)
    return x is not None and m.node(m.one(*_JUMPING), x, exact=True)


def _other(m: Maker, shape: Shape, low: float = -1, high: float = 1) -> Tensor:
    """Return a constant that broadcasts to a shape."""
    kept = shape[m.number(0, len(shape)) :]
    return m.constant(*(n if m.truth() else 1 for n in kept), low=low, high=high)


def _sum(m: Maker) -> bool:
    x = m.any()
    if x is None or not x.shape:
        return False
    same = [t for t in m.values if t.shape == x.shape]
    other = m.one(*same) if m.truth() else _other(m, x.shape)
    operands = (x, other) if m.truth() else (other, x)
    op = m.one(*_SUMS, "ElementWiseMultiply", "ElementWiseSquaredDifference", "ElementWiseBinary")
    if op == "ElementWiseBinary":
        return m.node(op, *operands, operation=m.one(0, 10, 11, 18))
    return m.node(op, *operands)


def _quotient(m: Maker) -> bool:
    x = m.any()
    if x is None or not x.shape:
        return False
    return m.node("ElementWiseDivide", x, _other(m, x.shape, 0.5, 2))


def _floor_quotient(m: Maker) -> bool:
    x = m.any(exact=True)
    if x is None or not x.shape:
        return False
    return m.node("ElementWiseFloorDiv", x, _other(m, x.shape, 0.5, 2))


def _power(m: Maker) -> bool:
    x = m.any()
    if x is None or not x.shape:
        return False
    base = add(m.graph, "ElementWiseAbs", [x], name=m._name("size"))
    base = add(m.graph, "ReluMinMax", [base], name=m._name("b"), min_value=0.1, max_value=3.0)
    return m.node("ElementWisePower", base, _other(m, x.shape, 0.5, 2))


def _choice(m: Maker) -> bool:
    x, y = m.any(exact=True), m.any()
    if x is None or y is None or not x.shape:
        return False
    m.ops.append("compare")
    name = f"ElementWise{m.one(*_COMPARISONS)}"
    truth = add(m.graph, name, [x, _other(m, x.shape)], name=m._name("test"))
    if m.truth():
        truth = add(m.graph, "ElementWiseNot", [truth], name=m._name("not"))
    else:
        op = m.one("ElementWiseAnd", "ElementWiseOr")
        truth = add(m.graph, op, [truth, truth], name=m._name("both"))
    return m.node("ElementWiseSelect", truth, x, _other(m, x.shape))


def _cast(m: Maker) -> bool:
    x = m.any(exact=True)
    if x is None:
        return False
    whole = add(m.graph, "Cast", [x], name=m._name("whole"), spec=Spec(I32, x.shape))
    return m.node("Cast", whole, spec=Spec(F32, x.shape), exact=True)


def _convolution(m: Maker) -> bool:
    x = m.any(4)
    if x is None:
        return False
    _, height, width, channels = x.shape
    kh, kw = m.number(1, min(3, height)), m.number(1, min(3, width))
    pads = [[m.number(0, kh - 1), m.number(0, kh - 1)], [m.number(0, kw - 1), m.number(0, kw - 1)]]
    stride = [m.number(1, 2), m.number(1, 2)]
    op = m.one("Conv2d", "Conv2d", "DepthWiseConv2d", "TransposeConv2d")
    if op == "DepthWiseConv2d":
        many = m.number(1, 2) * channels
        weights, bias = m.constant(kh, kw, 1, many), m.constant(many)
        return m.node(op, x, weights, bias, stride=stride, pad_amount=pads)
    group = m.one(*(g for g in (1, 2, 4) if channels % g == 0))
    out = group * m.number(1, 5)
    if op == "TransposeConv2d":
        pads = [[0, 0], [0, 0]]
        weights = m.constant(kh, kw, channels, out // group)
    else:
        weights = m.constant(kh, kw, channels // group, out)
    bias = m.constant(out) if m.truth() else None
    return m.node(op, x, weights, bias, stride=stride, pad_amount=pads, group=group)


def _product(m: Maker) -> bool:
    x = m.any(least=2)
    if x is None:
        return False
    if m.truth():
        width, out = x.shape[-1], m.number(1, 9)
        turned = m.truth()
        factor = m.constant(*((out, width) if turned else (width, out)))
        return m.node("MatMul", x, factor, transpose_in1=turned)
    flat = int(np.prod(x.shape[1:]))
    rows = add(m.graph, "Reshape", [x], name=m._name("rows"), spec=Spec(F32, (x.shape[0], flat)))
    out = m.number(1, 20)
    return m.node("FullyConnected", rows, m.constant(out, flat), m.constant(out))


def _pool(m: Maker) -> bool:
    x = m.any(4)
    if x is None:
        return False
    size = [m.number(1, min(3, n)) for n in x.shape[1:3]]
    pads = [[m.number(0, k // 2), m.number(0, k // 2)] for k in size]
    params = {"filter_size": size, "stride": [m.number(1, 2), m.number(1, 2)], "pad_amount": pads}
    op = m.one("PoolMax2d", "PoolAvg2d", "L2Pool2d")
    if op == "PoolAvg2d":
        params["count_pad_for_edges"] = m.truth()
    return m.node(op, x, **params)


def _reduction(m: Maker) -> bool:
    x = m.any(least=1)
    if x is None:
        return False
    axes = sorted({m.number(0, len(x.shape) - 1) for _ in range(m.number(1, 3))})
    op = m.one(*_REDUCTIONS)
    return m.node(op, x, axes=axes, keep_dims=m.truth())


def _ranked(m: Maker) -> bool:
    x = m.any(exact=True, least=1)
    if x is None:
        return False
    if m.truth():
        op = m.one("Argmax", "Argmin")
        return m.node(op, x, axis=m.number(0, len(x.shape) - 1), keep_dims=m.truth())
    return m.nodes("TopK", x, k=m.number(1, x.shape[-1]))


def _normalized(m: Maker) -> bool:
    x = m.any(4) if m.truth() else m.any(least=1)
    if x is None:
        return False
    last, channels = len(x.shape) - 1, x.shape[-1]
    scale, shift = m.constant(channels, low=0.5, high=2), m.constant(channels)
    ops = ["Softmax", "LogSoftmax", "LayerNorm", "RmsNorm", "L2Norm", "Batchnorm"]
    op = m.one(*ops, *(("InstanceNorm", "GroupNorm", "Lrn") if last == 3 else ()))
    if op in ("Softmax", "LogSoftmax"):
        return m.node(op, x, axis=m.number(0, last), beta=m.one(1.0, 0.5))
    if op in ("LayerNorm", "RmsNorm"):
        return m.node(op, x, scale, shift, axes=[last], epsilon=0.01)
    if op == "L2Norm":
        return m.node(op, x, axis=last, epsilon=0.01)
    if op == "Lrn":
        return m.node(op, x, alpha=0.5, beta=0.75, bias=1.0, radius=m.number(0, 2))
    if op == "GroupNorm":
        group = m.one(*(g for g in (1, 2, 3) if channels % g == 0))
        return m.node(op, x, scale, shift, group=group, epsilon=0.01)
    return m.node(op, x, scale, shift, **({"epsilon": 0.01} if op == "InstanceNorm" else {}))


def _resized(m: Maker) -> bool:
    x = m.any(4)
    if x is None:
        return False
    n, _, _, channels = x.shape
    spec = Spec(F32, (n, m.number(1, 9), m.number(1, 9), channels))
    return m.node("ResizeBilinear", x, spec=spec, half_pixel_centers=m.truth())


def _moved(m: Maker) -> bool:
    exact = m.truth()
    x = m.any(exact=exact, least=1)
    if x is None:
        return False
    rank, axis = len(x.shape), m.number(0, len(x.shape) - 1)
    match m.number(0, 4):
        case 0:
            perm = [int(i) for i in m.rng.permutation(rank)]
            return m.node("Transpose", x, perm=perm, exact=exact)
        case 1:
            shape = (int(np.prod(x.shape)),) if m.truth() else (1, *x.shape[::-1])
            return m.node("Reshape", x, spec=Spec(F32, shape), exact=exact)
        case 2:
            amounts = [[m.number(0, 2), m.number(0, 2)] for _ in x.shape]
            return m.node("Pad", x, scheme=0, pad_amount=amounts, pad_constant_value=np.float32(2))
        case 3:
            return m.node("Tile", x, multiples=[m.number(1, 2) for _ in x.shape], exact=exact)
        case _:
            chosen = m.rng.integers(0, x.shape[axis], m.number(1, 5)).astype(np.int32)
            indices = static(m.graph, m._name("at"), chosen)
            return m.node("Gather", x, indices, axis=axis, exact=exact)


def _parted(m: Maker) -> bool:
    exact = m.truth()
    x = m.any(exact=exact, least=1)
    if x is None:
        return False
    axis = m.number(0, len(x.shape) - 1)
    match m.number(0, 4):
        case 0:
            same = [t for t in m.values if t.shape == x.shape]
            return m.node("Concat", x, m.one(*same), axis=axis)
        case 1:
            if x.shape[axis] < 2:
                return False
            return m.nodes("Split", x, axis=axis, split_index=[m.number(1, x.shape[axis] - 1)])
        case 2:
            ranges = [[(b := m.number(0, n - 1)), m.number(b + 1, n), 1] for n in x.shape]
            return m.node("StridedSlice", x, ranges=ranges, exact=exact)
        case 3:
            return m.node("Pack", x, x, axis=axis, exact=exact)
        case _:
            return m.nodes("UnPack", x, axis=axis, exact=exact)


def _blocks(m: Maker) -> bool:
    x = m.any(4)
    if x is None:
        return False
    n, height, width, channels = x.shape
    if channels % 4 == 0 and m.truth():
        return m.node("DepthToSpace", x, block_size=[2, 2], mode=m.number(0, 1))
    if height % 2 == 0 and width % 2 == 0:
        return m.node(m.one("SpaceToDepth", "SpaceToBatch"), x, block_size=[2, 2])
    if n % 4 == 0:
        return m.node("BatchToSpace", x, block_size=[2, 2])
    return channels % 2 == 0 and m.node("ChannelShuffle", x, num_groups=2, axis=3)


_STEPS: Sequence[Callable[[Maker], bool]] = (
    *(_smooth, _positive, _exponential, _jumping, _sum, _quotient, _floor_quotient, _power),
    *(_choice, _cast, _convolution, _product, _pool, _reduction, _ranked, _normalized, _resized),
    *(_moved, _parted, _moved, _parted, _blocks),
)
