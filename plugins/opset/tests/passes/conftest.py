"""Random networks as a frontend of a channels-first format makes them."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

from dovetail.ir import Array, DType, Graph, Tensor, TensorKind, find_faults
from dovetail_opset.build import add, add_all, static

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

    STEPS: ClassVar[dict[str, Callable[["Maker", Tensor], Tensor]]] = {
        "conv": conv,
        "batchnorm": batchnorm,
        "pool": pool,
        "pair": pair,
        "split": split,
        "gate": gate,
        "layer_norm": layer_norm,
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


def random_network(seed: int, steps: int = 8) -> Graph:
    maker = Maker(seed)
    names = sorted(Maker.STEPS)
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
