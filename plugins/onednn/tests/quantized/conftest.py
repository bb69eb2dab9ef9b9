"""Fixtures: networks on stored integers, their plans on oneDNN, and their definition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from instruction_limits import IS_LIMITED, selected

from dovetail.container import WeightStore
from dovetail.ir import (
    Array,
    AxisScaleOffset,
    DType,
    Encoding,
    Graph,
    ScaleOffset,
    Shape,
    Spec,
    Tensor,
    TensorKind,
)
from dovetail.ops import EVERYTHING, NOTHING, CheckedGraph, OpRegistry, check_ops
from dovetail.runtime.contract import RunControl
from dovetail.runtime.plan import PlanPrepared, build_plan
from dovetail_numpy import KERNELS
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.integer.one_grid import moves_on_one_grid
from dovetail_onednn import onednn_kernels, reorder
from dovetail_opset import PACKAGE, STANDARD
from dovetail_opset.build import add

U8, S8, U16 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8, DType.UFIXED_POINT_16
S16, S32 = DType.SFIXED_POINT_16, DType.SFIXED_POINT_32
OPS = OpRegistry.of(PACKAGE)

Grid = tuple[DType, int, float]  # with zero point and scale


@dataclass
class Network:
    """A graph on stored integers under construction, with random data.

    Attributes:
        extreme: Whether data and weights are the ends of their types only.
    """

    extreme: bool = False
    graph: Graph = field(default_factory=lambda: Graph("net"))
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    def input(self, name: str, shape: Shape, dtype: DType = U8, zero: int = 0) -> Tensor:
        encoding = ScaleOffset(0.02, -zero)
        tensor = Tensor(name, dtype, shape, TensorKind.APP_WRITE, encoding=encoding)
        return self.graph.add_tensor(tensor)

    def weights(self, name: str, shape: Shape, dtype: DType = S8, **grid: Any) -> Tensor:
        """Add weights; `zero` is their zero point, `axis` that of their scales if not one."""
        zero, axis = grid.get("zero", 0), grid.get("axis")
        stored = self.values(shape, dtype)
        if axis is None:
            encoding: Encoding = ScaleOffset(0.003, -zero)
        else:
            steps = self.rng.uniform(0.001, 0.01, shape[axis]).astype(np.float32)
            encoding = AxisScaleOffset(axis, steps, np.full(shape[axis], -zero, np.int32))
        return self.static(name, stored, dtype, encoding)

    def bias(self, name: str, units: int, dtype: DType = S32) -> Tensor:
        """Add a bias: of 32 bits on the grid of the products, of 8 bits on its own."""
        if dtype is S32:
            values = self.rng.integers(-5000, 5000, units).astype(np.int32)
            return self.static(name, values, dtype, None)
        return self.static(name, self.values((units,), dtype), dtype, ScaleOffset(0.01, -3))

    def static(self, name: str, stored: Array, dtype: DType, encoding: Encoding | None) -> Tensor:
        return self.graph.add_tensor(Tensor.static(name, stored, dtype, encoding=encoding))

    def values(self, shape: Shape, dtype: DType) -> Array:
        low, high = dtype.stored_range()
        if self.extreme:
            found = np.where(self.rng.random(shape) < 0.9, high, low)
        else:
            found = self.rng.integers(low, high, shape, endpoint=True)
        return found.astype(dtype.storage)

    def add(
        self,
        op_type: str,
        *inputs: Tensor | None,
        name: str,
        dtype: DType = U8,
        scale: float = 0.05,
        zero: int = 0,
        bits: int | None = None,
        **params: Any,
    ) -> Tensor:
        """Add a node whose result has this type, scale and zero point, perhaps of fewer bits."""
        made = add(self.graph, op_type, inputs, name=name, **params)
        made.dtype, made.encoding = dtype, ScaleOffset(scale, -zero, bits)
        return made

    def converted(
        self, x: Tensor, name: str, dtype: DType = DType.FLOAT_32, encoding: Encoding | None = None
    ) -> Tensor:
        """Add a Quantize, or without an encoding a Dequantize."""
        op_type, spec = "Dequantize" if encoding is None else "Quantize", (dtype, x.shape, encoding)
        return add(self.graph, op_type, [x], name=name, spec=Spec(*spec))

    def add_norm(
        self,
        op_type: str,
        shape: Shape,
        grids: tuple[Grid, Grid],
        *,
        epsilon: float,
        factors: int,
    ) -> Tensor:
        """Add a norm of the last axis on grids of data and result, with gamma and beta or fewer."""
        width, (dtype, zero, scale) = shape[-1], grids[0]
        x = self.input("x", shape, dtype)
        x.encoding = ScaleOffset(scale, -zero)
        gamma = self.static("gamma", self.values((width,), U8), U8, ScaleOffset(0.006, 0))
        bias = self.rng.integers(-(1 << 20), 1 << 20, width).astype(np.int32)
        beta = self.static("beta", bias, S32, ScaleOffset(1e-6, 0))
        ins = [x, gamma, beta][: factors + 1]
        params = {"axes": np.array([len(shape) - 1], np.uint32), "epsilon": epsilon}
        dtype, zero, scale = grids[1]
        return self.add(op_type, *ins, name="y", dtype=dtype, scale=scale, zero=zero, **params)

    def feeds(self) -> dict[str, Array]:
        return {t.name: self.values(t.shape, t.dtype) for t in self.graph.inputs}

    def checked(self, *, fuse: bool = True) -> CheckedGraph:
        return check_ops(self.graph, OPS, NOTHING if fuse else EVERYTHING)

    def prepare(self, *, fuse: bool = True) -> PlanPrepared:
        kernels = onednn_kernels("test").with_fallback(KERNELS.for_backend("test"))
        reshape = OPS.find(STANDARD, "Reshape")
        graph = moves_on_one_grid(self.checked(fuse=fuse), reshape, lambda view: view.is_quantized)
        return PlanPrepared(build_plan(graph, kernels, WeightStore(), None, reorder=reorder))

    def run(self, prepared: PlanPrepared, feeds: Mapping[str, Array]) -> dict[str, Array]:
        outputs = {t.name: np.zeros(t.shape, t.dtype.storage) for t in self.graph.outputs}
        with np.errstate(all="ignore"):  # as in runs of a backend
            prepared.run(feeds, outputs, RunControl())
        return outputs

    def defined(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Return all tensors' stored values by definition."""
        tensors = self.graph.tensors.values()
        values = {t.name: t.stored() for t in tensors if t.data is not None} | dict(feeds)
        for view in self.checked().nodes:
            definition = DEFINITIONS.of(view)
            assert definition is not None
            ins = [None if t is None else values[t.name] for t in view.node.inputs]
            results = definition.compute(view, ins)
            values |= {t.name: r for t, r in zip(view.node.outputs, results, strict=True)}
        return values

    def check(
        self,
        *results: Tensor,
        engine: bool = True,
        feeds: Mapping[str, Array] | None = None,
    ) -> PlanPrepared:
        """Check that results equal the definition, and perhaps that the engine computes all.

        Without feeds, inputs are random.

        Returns:
            The plan.
        """
        for result in results:
            result.kind = TensorKind.APP_READ
        prepared, feeds = self.prepare(), feeds or self.feeds()
        if engine:
            modules = {getattr(s.bind, "func", s.bind).__module__ for s in prepared.steps}
            assert all(module.startswith("dovetail_onednn.") for module in modules)
        found, wanted = self.run(prepared, feeds), self.defined(feeds)
        for result in results:
            np.testing.assert_array_equal(found[result.name], wanted[result.name])
        return prepared


@pytest.fixture(name="new_network", scope="session")
def fixture_new_network() -> type[Network]:
    return Network


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if IS_LIMITED:
        items[:] = selected(items)
