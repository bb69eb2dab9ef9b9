"""Changes of type on a device, against `cpu` and the definitions of encodings."""

import numpy as np
import pytest

from dovetail.ir import (
    AxisScaleOffset,
    DType,
    Graph,
    ScaleOffset,
    Spec,
    Tensor,
    TensorKind,
    dequantize,
    quantize,
)
from dovetail_opset.build import add

TYPES = (DType.FLOAT_32, DType.FLOAT_16, DType.INT_32, DType.UINT_32, DType.UINT_8, DType.BOOL_8)
# Each type to and from float32 and int32, and pairs whose code differs from theirs.
PAIRS = [
    *((DType.FLOAT_32, target) for target in TYPES),
    *((source, DType.FLOAT_32) for source in (*TYPES[1:], DType.INT_64)),
    *((source, DType.INT_32) for source in (DType.FLOAT_16, DType.UINT_32, DType.INT_64)),
    *((DType.INT_32, target) for target in (DType.UINT_8, DType.BOOL_8, DType.UINT_32)),
    (DType.UINT_8, DType.FLOAT_16),
    (DType.FLOAT_16, DType.UINT_8),
]
NUMBERS = [0, 1, 2.5, -2.5, -0.75, 127, 128, 255.5, 300, -1, 65504, 2**31, 4e9, -3e9, 1e20]
SPECIAL = [np.nan, np.inf, -np.inf]
GRIDS = {
    "u8": (DType.UFIXED_POINT_8, ScaleOffset(0.03125, -100)),
    "s16": (DType.SFIXED_POINT_16, ScaleOffset(0.001953125, 0)),
    "uneven": (DType.UFIXED_POINT_8, ScaleOffset(0.0123, -7)),
    "of 6 bits": (DType.SFIXED_POINT_8, ScaleOffset(0.1, 0, bitwidth=6)),
    "u4": (DType.UFIXED_POINT_4, ScaleOffset(0.25, -8)),
    "by channel": (
        DType.SFIXED_POINT_8,
        AxisScaleOffset(1, np.array([0.5, 0.01, 0.03], np.float32)),
    ),
    "by row": (
        DType.UFIXED_POINT_8,
        AxisScaleOffset(
            0, np.linspace(0.01, 0.1, 8, dtype=np.float32), np.arange(-8, 0, dtype=np.int32)
        ),
    ),
}


def values(dtype):
    """Return numbers of a type, among them those that other types do not have."""
    if dtype.is_float:
        with np.errstate(over="ignore"):
            return np.array([*NUMBERS, *SPECIAL], dtype.storage)
    if dtype is DType.BOOL_8:
        return np.array([True, False] * 9)
    low, high = dtype.stored_range()
    return np.array([low, low + 1, 0, 1, 77, high // 2, high // 2 + 1, high - 1, high] * 2).astype(
        dtype.storage
    )


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_cast(check_op, source, target):
    x = values(source)
    with np.errstate(all="ignore"):
        check_op("Cast", x, specs=[Spec(target, x.shape)], rtol=1e-7)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (DType.FLOAT_32, DType.FLOAT_16),
        (DType.FLOAT_32, DType.UINT_8),
        (DType.INT_32, DType.UINT_8),
        (DType.UINT_8, DType.FLOAT_32),
    ],
)
def test_convert(check_op, source, target):
    x = values(source)
    with np.errstate(all="ignore"):
        check_op("Convert", x, specs=[Spec(target, x.shape)], rtol=1e-7)


def grid_graph(name, *, keeps_grid):
    """Create x -> Quantize -> Dequantize; without the last, the result is fixed-point."""
    dtype, encoding = GRIDS[name]
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (8, 3), TensorKind.APP_WRITE))
    y = add(graph, "Quantize", [x], name="q", spec=Spec(dtype, (8, 3), encoding))
    if not keeps_grid:
        y = add(graph, "Dequantize", [y], name="y")
    y.kind = TensorKind.APP_READ
    return graph, dtype, encoding


def samples(dtype, encoding):
    """Return numbers on, between, exactly in the middle of, and beyond steps of a grid."""
    low, high = dtype.stored_range(encoding.bitwidth)
    steps = np.array([low - 9, low, low + 0.5, low + 1.5, 0, 1, 2.5, 3.5, high - 0.5, high + 4])
    steps = np.resize(steps, (8, 3)).astype(np.float32)
    scale, offset = encoding.scales_and_offsets((8, 3))
    x = ((steps + offset) * scale).astype(np.float32)
    x[7] = np.nan, np.inf, -np.inf
    return x


@pytest.mark.parametrize("name", GRIDS)
def test_quantize_rounds_to_the_grid(run, name):
    graph, dtype, encoding = grid_graph(name, keeps_grid=True)
    x = samples(dtype, encoding)
    wanted = quantize(x, encoding, dtype)
    np.testing.assert_array_equal(run(graph, {"x": x})["q"], wanted)
    graph, *_ = grid_graph(name, keeps_grid=False)
    real = dequantize(wanted, encoding)
    np.testing.assert_allclose(run(graph, {"x": x})["y"], real, rtol=3e-7)


@pytest.mark.parametrize("dtype", [DType.FLOAT_32, DType.FLOAT_16])
def test_quantize_runs_with_what_precedes(run, steps_of, dtype):
    graph = Graph("net")
    encoding = ScaleOffset(0.05, -3)
    x = graph.add_tensor(Tensor("x", dtype, (40,), TensorKind.APP_WRITE))
    y = add(graph, "Relu6", [x], name="a")
    y = add(graph, "Quantize", [y], name="q", spec=Spec(DType.UFIXED_POINT_8, (40,), encoding))
    y = add(graph, "Dequantize", [y], name="y", spec=Spec(dtype, (40,)))
    y.kind = TensorKind.APP_READ
    given = np.linspace(-1, 7, 40).astype(dtype.storage)
    assert len(steps_of(graph)) == 1
    clipped = np.clip(given.astype(np.float32), 0, 6)
    wanted = dequantize(quantize(clipped, encoding, DType.UFIXED_POINT_8), encoding)
    np.testing.assert_allclose(run(graph, {"x": given})["y"], wanted, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("target", [DType.INT_32, DType.INT_8, DType.FLOAT_32, DType.BOOL_8])
@pytest.mark.parametrize("name", ["u8", "s16", "by channel"])
def test_cast_of_stored_values(run, name, target):
    dtype, encoding = GRIDS[name]
    graph = Graph("net")
    stored = np.resize(values(dtype), (8, 3))
    x = Tensor("x", dtype, (8, 3), TensorKind.APP_WRITE, encoding=encoding)
    y = add(graph, "Cast", [graph.add_tensor(x)], name="y", spec=Spec(target, (8, 3)))
    y.kind = TensorKind.APP_READ
    found = run(graph, {"x": stored})["y"]
    np.testing.assert_array_equal(found, stored.astype(target.storage))


@pytest.mark.parametrize("source", [DType.FLOAT_32, DType.INT_32])
def test_cast_to_stored_values(run, source):
    dtype, encoding = GRIDS["uneven"]
    graph, x = Graph("net"), np.array([0, 3, 200, 255, 256, 300, -1, -200], source.storage)
    tensor = graph.add_tensor(Tensor("x", source, (8,), TensorKind.APP_WRITE))
    y = add(graph, "Cast", [tensor], name="y", spec=Spec(dtype, (8,), encoding))
    y.kind = TensorKind.APP_READ
    wanted = np.clip(x, 0, 255) if source.is_float else x & 255
    np.testing.assert_array_equal(run(graph, {"x": x})["y"], wanted.astype(np.uint8))


def test_convert_between_grids(run):
    (_, first), (dtype, second) = GRIDS["u8"], GRIDS["uneven"]
    graph, stored = Graph("net"), np.arange(256, dtype=np.uint8)
    x = Tensor("x", DType.UFIXED_POINT_8, (256,), TensorKind.APP_WRITE, encoding=first)
    y = add(graph, "Convert", [graph.add_tensor(x)], name="y", spec=Spec(dtype, (256,), second))
    y.kind = TensorKind.APP_READ
    wanted = quantize(dequantize(stored, first), second, dtype)
    np.testing.assert_array_equal(run(graph, {"x": stored})["y"], wanted)
