"""Entries and graphs: an entry's meaning for a tensor, and a graph's entries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dovetail.errors import QuantizationError
from dovetail.ir import (
    AxisScaleOffset,
    Block,
    BlockwiseExpansion,
    DType,
    Graph,
    ScaleOffset,
    Shape,
    Tensor,
    TensorKind,
    dequantize,
)
from dovetail_quantizers.files import Form, TensorEncoding, encodings_of, entry_of, to_encoding

OIHW_TO_HWIO = (2, 3, 1, 0)


def tensor(shape: Shape, perm: Shape | None = None, **more: Any) -> Tensor:
    """A tensor that was `shape` in the user's model and is transposed by `perm` now."""
    here = shape if perm is None else tuple(shape[p] for p in perm)
    kind = TensorKind.STATIC
    return Tensor("t.last", DType.FLOAT_32, here, kind, source="t", source_perm=perm, **more)


def per_tensor(bitwidth: int, offset: int, symmetric: bool, signed: bool = False) -> TensorEncoding:
    return TensorEncoding(
        "t", "int", bitwidth, Form.PER_TENSOR, symmetric, np.asarray(0.1), np.asarray(offset),
        signed=signed,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("entry", "dtype", "encoding"),
    [
        (per_tensor(8, -61, False), DType.UFIXED_POINT_8, ScaleOffset(0.1, -61)),
        (per_tensor(16, 0, False), DType.UFIXED_POINT_16, ScaleOffset(0.1, 0)),
        (per_tensor(4, -3, False), DType.UFIXED_POINT_8, ScaleOffset(0.1, -3, 4)),
        (per_tensor(8, -128, True), DType.SFIXED_POINT_8, ScaleOffset(0.1, 0)),
        (per_tensor(8, -128, False), DType.UFIXED_POINT_8, ScaleOffset(0.1, -128)),
        # strict: the lowest integer is left out, and the file says so by "symmetric"
        (per_tensor(8, -127, True), DType.SFIXED_POINT_8, ScaleOffset(0.1, 0)),
        (per_tensor(8, -127, False, signed=True), DType.UFIXED_POINT_8, ScaleOffset(0.1, -127)),
        (per_tensor(8, 0, True), DType.UFIXED_POINT_8, ScaleOffset(0.1, 0)),
        (per_tensor(32, -(2**31), True), DType.SFIXED_POINT_32, ScaleOffset(0.1, 0)),
        (per_tensor(10, -512, True), DType.SFIXED_POINT_16, ScaleOffset(0.1, 0, 10)),
        (TensorEncoding("t", "float", 16), DType.FLOAT_16, None),
        (TensorEncoding("t", "float", 32), DType.FLOAT_32, None),
    ],
)
def test_whole_tensors(entry: TensorEncoding, dtype: DType, encoding: ScaleOffset | None) -> None:
    assert to_encoding(entry, tensor((2, 3)), None) == (dtype, encoding)


def channels(count: int, axis: int | None, offset: int = -8, symmetric: bool = True) -> Any:
    scales = np.arange(1.0, count + 1) / 10
    return TensorEncoding(
        "t", "int", 4, Form.PER_CHANNEL, symmetric, scales, np.full(count, offset), axis
    )


@pytest.mark.parametrize(("axis", "given"), [(0, None), (None, 3), (0, 3)])
def test_the_axis_of_channels_moves_with_the_layout(axis: int | None, given: int | None) -> None:
    weight = tensor((5, 2, 3, 3), OIHW_TO_HWIO)
    dtype, encoding = to_encoding(channels(5, axis), weight, given)
    assert dtype is DType.SFIXED_POINT_8
    assert encoding == AxisScaleOffset(3, np.float32([0.1, 0.2, 0.3, 0.4, 0.5]), None, 4)


def blocks_of(shape: Shape, axis: int, size: int, seed: int = 0) -> TensorEncoding:
    """Blocks along an axis, the same over all axes but it and the channels'."""
    channel = 1 if axis == 0 else 0
    spread = [1] * len(shape)
    spread[channel], spread[axis] = shape[channel], shape[axis] // size
    scales = np.random.default_rng(seed).uniform(0.1, 1, spread)
    full = tuple(n // size if i == axis else n for i, n in enumerate(shape))
    scales = np.broadcast_to(scales, full).astype(np.float32).astype(np.float64)
    return TensorEncoding(
        "t", "int", 4, Form.PER_BLOCK, True, scales, np.full(full, -8), axis, size
    )


LAYOUTS = [
    ((6, 8), None, 1, 4, 0),
    ((8, 6), None, 0, 4, 1),
    ((8, 6), (1, 0), 0, 2, 0),
    ((5, 8, 1, 1), OIHW_TO_HWIO, 1, 4, 3),
    ((5, 8, 3, 2), OIHW_TO_HWIO, 1, 4, 3),
    ((8, 5, 3, 2), (2, 3, 0, 1), 0, 4, 3),
]


def real_scales(entry: TensorEncoding) -> Any:
    """The scale of each element in the layout of the user's model, written out."""
    assert entry.scales is not None
    scales = entry.scales
    if entry.block_scales is not None:
        scales = scales * entry.block_scales
    return np.repeat(scales, entry.block_size, entry.axis)


@pytest.mark.parametrize(("shape", "perm", "axis", "size", "channel"), LAYOUTS)
def test_blocks(shape: Shape, perm: Shape | None, axis: int, size: int, channel: int) -> None:
    entry, weight = blocks_of(shape, axis, size), tensor(shape, perm)
    dtype, encoding = to_encoding(entry, weight, channel)
    assert isinstance(encoding, Block)
    assert encoding.bitwidth == 4
    ones = dequantize(np.ones(weight.shape, np.int8), encoding)
    wanted = real_scales(entry)
    np.testing.assert_array_equal(ones, wanted if perm is None else wanted.transpose(perm))
    # and back
    fixed = Tensor(
        "t.last", dtype, weight.shape, TensorKind.STATIC, encoding=encoding, source="t",
        source_perm=perm,
    )  # fmt: skip
    back = entry_of(fixed)
    assert back is not None
    assert (back.form, back.axis, back.block_size) == (Form.PER_BLOCK, axis, size)
    np.testing.assert_allclose(back.scales, entry.scales, rtol=1e-7)  # a float32's shortest text


@pytest.mark.parametrize(("shape", "perm", "axis", "size", "channel"), LAYOUTS)
def test_flat_blocks_mean_the_same_as_those_along_axes(
    shape: Shape, perm: Shape | None, axis: int, size: int, channel: int
) -> None:
    entry = blocks_of(shape, axis, size)
    # channel by channel, the kernel's axes left out: written out from what 1.0.0 says
    first = entry.scales.reshape(*entry.scales.shape[:2], -1)[:, :, 0]
    listed = (first if axis == 1 else first.T).ravel()
    silent = TensorEncoding(
        "t", "int", 4, Form.PER_BLOCK, True, listed, np.full(listed.size, -8), None, size
    )
    weight = tensor(shape, perm)
    assert to_encoding(silent, weight, channel) == to_encoding(entry, weight, channel)


@pytest.mark.parametrize(("shape", "perm", "axis", "size", "channel"), LAYOUTS)
def test_blocks_with_factors(
    shape: Shape, perm: Shape | None, axis: int, size: int, channel: int
) -> None:
    blocks = blocks_of(shape, axis, size)
    assert blocks.scales is not None
    factors = np.ceil(blocks.scales * 16).astype(np.int64)
    ones = tuple(n if i == (1 if axis == 0 else 0) else 1 for i, n in enumerate(shape))
    scales = np.linspace(0.1, 0.9, max(ones)).astype(np.float32).astype(np.float64).reshape(ones)
    entry = TensorEncoding(
        "t", "int", 8, Form.LPBQ, True, scales, np.full(ones, -128), axis, size
    ).with_factors(factors, 4)
    weight = tensor(shape, perm)
    dtype, encoding = to_encoding(entry, weight, channel)
    assert isinstance(encoding, BlockwiseExpansion)
    made = dequantize(np.ones(weight.shape, np.int8), encoding)
    wanted = real_scales(entry)
    # the product is rounded to a float32 here, and not above
    np.testing.assert_allclose(made, wanted if perm is None else wanted.transpose(perm), rtol=2e-7)
    fixed = Tensor(
        "t.last", dtype, weight.shape, TensorKind.STATIC, encoding=encoding, source="t",
        source_perm=perm,
    )  # fmt: skip
    back = entry_of(fixed)
    assert back is not None
    assert (back.axis, back.block_size, back.bitwidth) == (axis, size, 8)
    np.testing.assert_array_equal(back.block_scales, factors)


@pytest.mark.parametrize(
    ("entry", "axis", "part"),
    [
        (channels(4, 0), None, "4 scales for the 5 channels of axis 0"),
        (channels(10, 0), None, "10 scales for the 5 channels"),
        (channels(5, 4), None, "an axis 4"),
        (channels(5, None), None, "along which axis"),
        (channels(5, 0, 0), None, "asymmetric"),
        (channels(5, 0, -7, symmetric=False), None, "asymmetric"),
        (TensorEncoding("t", "int", 8), None, "no scale"),
        (
            TensorEncoding("t", scales=np.asarray(0.0), offsets=np.asarray(0)),
            None,
            "no scale",
        ),
        (blocks_of((5, 6), 1, 2), None, "numbers of shape (5, 3)"),
    ],
)
def test_what_does_not_fit_is_refused(entry: TensorEncoding, axis: Any, part: str) -> None:
    with pytest.raises(QuantizationError) as caught:
        to_encoding(entry, tensor((5, 2, 3, 3), OIHW_TO_HWIO), axis)
    assert part in str(caught.value)
    assert caught.value.where == "tensor 't'"


def test_a_graph_speaks_in_the_user_s_names_and_layout() -> None:
    graph = Graph("g")
    graph.add_tensor(
        Tensor(
            "x.last", DType.UFIXED_POINT_8, (1, 2, 2, 3), TensorKind.APP_WRITE,
            encoding=ScaleOffset(0.1, -61), source="x", source_perm=(0, 2, 3, 1),
        )
    )  # fmt: skip
    graph.add_tensor(
        Tensor(
            "x.again", DType.UFIXED_POINT_8, (1, 3, 2, 2), encoding=ScaleOffset(0.5, 0), source="x"
        )
    )
    weight = Tensor.static(
        "w", np.zeros((3, 3, 2, 5), np.int8), DType.SFIXED_POINT_8,
        encoding=AxisScaleOffset(3, np.float32([0.1, 0.2, 0.3, 0.4, 0.5]), None, 4),
        source_perm=OIHW_TO_HWIO,
    )  # fmt: skip
    graph.add_tensor(weight)
    graph.add_tensor(Tensor("h", DType.FLOAT_16, (1,)))
    graph.add_tensor(Tensor("i", DType.INT_32, (1,)))
    file = encodings_of(graph)
    # the second tensor from `x` differs, so it goes by its own name
    assert set(file.entries) == {"x", "x.again", "w", "h"}
    assert set(file.params) == {"w"}
    assert (float(file.entries["x"].scales), int(file.entries["x"].offsets)) == (0.1, -61)
    entry = file.entries["w"]
    assert (entry.axis, entry.bitwidth, entry.symmetric) == (0, 4, True)
    assert entry.scales.tolist() == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert set(entry.offsets.tolist()) == {-8}
    assert file.quantizer_args == {
        "dtype": "int",
        "activation_bitwidth": 8,
        "param_bitwidth": 4,
        "per_channel_quantization": True,
    }


def test_a_graph_s_entries_mean_the_graph_s_encodings() -> None:
    for dtype, encoding in (
        (DType.UFIXED_POINT_8, ScaleOffset(1 / 3, -61)),
        (DType.UFIXED_POINT_16, ScaleOffset(1e-5, -65535)),
        (DType.SFIXED_POINT_16, ScaleOffset(1 / 3, 0)),
        (DType.SFIXED_POINT_8, ScaleOffset(1 / 3, 0, 4)),
        (DType.SFIXED_POINT_8, AxisScaleOffset(1, np.float32([1 / 3, 1 / 7, 1e-30]))),
    ):
        made = Tensor("t", dtype, (2, 3), TensorKind.STATIC, encoding=encoding)
        entry = entry_of(made)
        assert entry is not None
        assert to_encoding(entry, made, None) == (dtype, encoding)
