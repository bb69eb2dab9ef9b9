"""Products with blocks of weights: bits equal to the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dovetail.container import WeightStore
from dovetail.ir import Array, Block, DType, Graph, ScaleOffset, Spec, Tensor, TensorKind
from dovetail.ops import OpRegistry, check_ops
from dovetail.runtime.contract import RunControl
from dovetail.runtime.plan import PlanPrepared, build_plan
from dovetail_numpy import KERNELS
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.kernels import block_products
from dovetail_opset import PACKAGE
from dovetail_opset.build import add

U8, S8, U16 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8, DType.UFIXED_POINT_16
S16, S32, F32 = DType.SFIXED_POINT_16, DType.SFIXED_POINT_32, DType.FLOAT_32
RNG = np.random.default_rng(5)


def constant(graph: Graph, name: str, values: Array, spec: Spec) -> Tensor:
    return graph.add_tensor(Tensor.static(name, values, spec.dtype, encoding=spec.encoding))


def check(graph: Graph, y: Tensor, stored: Array, *, by_kernel: bool = True) -> None:
    """Check that the result of a plan is the definition's, and which kernel computed it."""
    y.kind = TensorKind.APP_READ
    checked = check_ops(graph, OpRegistry.of(PACKAGE))
    (view,) = checked.nodes
    definition = DEFINITIONS.of(view)
    assert definition is not None
    constants = [t.stored() for t in view.node.inputs[1:] if t is not None]
    (wanted,) = definition.compute(view, [stored, *constants])
    prepared = PlanPrepared(build_plan(checked, KERNELS.for_backend("test"), WeightStore(), None))
    assert (prepared.steps[0].bind.__module__ == block_products.__name__) == by_kernel
    found = np.zeros(y.shape, y.dtype.storage)
    prepared.run({"x": stored}, {y.name: found}, RunControl())
    np.testing.assert_array_equal(found, wanted)
    assert len(np.unique(found)) > 20  # not all at an end


def rows(graph: Graph, shape: Any, dtype: DType) -> tuple[Tensor, Array]:
    """An input with stored integers of all sizes."""
    low, high = dtype.stored_range()
    encoding = ScaleOffset(8 / (high - low), -(low + (high - low) // 3))
    x = graph.add_tensor(Tensor("x", dtype, shape, TensorKind.APP_WRITE, encoding=encoding))
    return x, RNG.integers(low, high, shape, endpoint=True).astype(dtype.storage)


def blocks(shape: Any, size: Any, dtype: DType, bits: int | None) -> tuple[Array, Spec]:
    """Weights with blocks; those of unsigned ones have zero points."""
    grid = tuple(n // b for n, b in zip(shape, size, strict=True))
    scales = RNG.uniform(0.01, 0.04, grid).astype(np.float32)
    offsets = None if dtype.is_signed else RNG.integers(-9, -6, grid).astype(np.int32)
    low, high = dtype.stored_range(bits)
    values = RNG.integers(low, high, shape, endpoint=True).astype(dtype.storage)
    return values, Spec(dtype, shape, Block(size, scales, offsets, bits))


@pytest.mark.parametrize("dtype", [U8, S8, U16, S16])
@pytest.mark.parametrize("shape", [(1, 96), (70, 96), (2, 3, 96)])
@pytest.mark.parametrize(("bits", "kind"), [(4, S8), (4, U8), (None, S8)])
@pytest.mark.parametrize("bias", [None, F32, S32])
@pytest.mark.parametrize("size", [(1, 32), (4, 16), (1, 96)])
def test_fully_connected(
    dtype: DType, shape: Any, bits: int | None, kind: DType, bias: DType | None, size: Any
) -> None:
    graph = Graph("net")
    x, stored = rows(graph, shape, dtype)
    values, spec = blocks((40, 96), size, kind, bits)
    operands = [x, constant(graph, "w", values, spec)]
    if bias is F32:
        numbers = RNG.standard_normal(40).astype(np.float32)
        operands.append(constant(graph, "b", numbers, Spec(F32, (40,))))
    elif bias is S32:
        integers = RNG.integers(-1000, 1000, 40).astype(np.int32)
        operands.append(constant(graph, "b", integers, Spec(S32, (40,), ScaleOffset(0.002, 0))))
    step = 40 * x.encoding.scale if bits is None else 2 * x.encoding.scale  # type: ignore[union-attr]
    units = int(np.prod(shape[:-1])), 40
    result = Spec(dtype, units, ScaleOffset(step, x.encoding.offset))  # type: ignore[union-attr]
    check(graph, add(graph, "FullyConnected", operands, name="y", spec=result), stored)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", [U8, U16])
def test_matmul(transposed: bool, dtype: DType) -> None:
    graph = Graph("net")
    x, stored = rows(graph, (2, 5, 64), dtype)
    shape, size = ((40, 64), (1, 16)) if transposed else ((64, 40), (16, 1))
    values, spec = blocks(shape, size, S8, 4)
    w = constant(graph, "w", values, spec)
    result = Spec(dtype, (2, 5, 40), ScaleOffset(2 * x.encoding.scale, x.encoding.offset))  # type: ignore[union-attr]
    params = {"transpose_in0": False, "transpose_in1": transposed}
    check(graph, add(graph, "MatMul", [x, w], name="y", spec=result, **params), stored)


def test_sums_that_float32_does_not_hold_are_left_to_the_definition() -> None:
    graph = Graph("net")
    x, stored = rows(graph, (3, 2048), U8)
    values, spec = blocks((24, 2048), (1, 1024), S8, None)
    w = constant(graph, "w", values, spec)
    result = Spec(U8, (3, 24), ScaleOffset(6.0, -128))
    y = add(graph, "FullyConnected", [x, w], name="y", spec=result)
    check(graph, y, stored, by_kernel=False)
