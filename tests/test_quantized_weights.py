"""Weights that a model stores as integers: the same integers here, and out again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from quantized_models import (
    ENDS,
    NUMBERS,
    RNG,
    Floats,
    check_against_peer,
    converted,
    drawn,
    integers,
    kinds,
    node,
    only_graph,
    pair,
    peer_of,
    results,
    saved,
    scales,
    sqnr_db,
    weights,
)

import dovetail as dt
from dovetail.api.quantization import quantize_with_report
from dovetail.ir import (
    AxisScaleOffset,
    Block,
    DType,
    ScaleOffset,
    dequantize,
)


def layer(path: Path, code: int, scale: Floats, zeros: int, **how: int) -> Path:
    """x (2, 12) times stored weights (12, 6), between pairs."""
    nodes = [
        *pair("x", "a"),
        node("DequantizeLinear", "w ws wz", "wd", **how),
        node("MatMul", "a wd", "m"),
        *pair("m", "y"),
    ]
    zero = helper.make_tensor("wz", code, scale.shape, [zeros] * scale.size)
    numbers = {"w": drawn(code, 12, 6), "ws": scale, "wz": zero}
    return saved(path, nodes, (2, 12), numbers | NUMBERS)


FORMS: dict[str, tuple[tuple[int, ...], dict[str, int], type]] = {
    "tensor": ((), {}, ScaleOffset),
    "channels": ((6,), {"axis": 1}, AxisScaleOffset),
    "blocks": ((3, 6), {"axis": 0, "block_size": 4}, Block),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("code", "zero"),
    [
        (TensorProto.INT4, 0),
        (TensorProto.UINT4, 8),
        (TensorProto.UINT4, 3),
        (TensorProto.INT8, 0),
        (TensorProto.UINT8, 128),
        (TensorProto.UINT8, 7),
        (TensorProto.INT16, 0),
    ],
)
def test_stored_integers_stay_what_they_are(
    tmp_path: Path, code: int, zero: int, form: str
) -> None:
    shape, how, encoding = FORMS[form]
    path = layer(tmp_path / "net.onnx", code, scales(*shape), zero, **how)
    stored = {i.name: i for i in onnx.load(path).graph.initializer}
    wanted = integers(stored["w"]) - zero
    float_model = dt.convert(path, name="net")
    float_model.save(tmp_path / "float.dvt")  # what is known of the integers is in the file too
    made = quantize_with_report(dt.Model.load(tmp_path / "float.dvt"))
    made.model.save(tmp_path / "net.dvt")
    for model in (made.model, dt.Model.load(tmp_path / "net.dvt")):
        (weight,) = weights(only_graph(model))
        assert weight.encoding is not None
        assert isinstance(weight.encoding, encoding)
        used = weight.encoding.bitwidth or weight.dtype.bits
        assert used == ENDS[code][1].bit_length() + (ENDS[code][0] < 0)
        factors, offsets = weight.encoding.scales_and_offsets(weight.shape)
        found = weight.stored().astype(np.int64) + offsets
        np.testing.assert_array_equal(found.T, wanted)
        given = numpy_helper.to_array(stored["ws"])
        blocks = np.repeat(given, 4, axis=0) if form == "blocks" else given
        np.testing.assert_array_equal(np.broadcast_to(factors, weight.shape).T,
                                      np.broadcast_to(blocks, (12, 6)))  # fmt: skip
    assert [each.tensor for each in kinds(made)["weight"]] == ["wd"]


@pytest.mark.parametrize(
    ("code", "zero"),
    [
        (TensorProto.INT4, 0),
        (TensorProto.UINT4, 3),
        (TensorProto.INT8, 0),
        (TensorProto.UINT8, 7),
        (TensorProto.INT16, 0),
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_they_come_out_of_the_exporter_again(
    tmp_path: Path, code: int, zero: int, form: str
) -> None:
    shape, how, _ = FORMS[form]
    path = layer(tmp_path / "net.onnx", code, scales(*shape), zero, **how)
    dt.export(converted(path).model, tmp_path / "out.onnx")
    before, after = (
        {i.name: i for i in onnx.load(each).graph.initializer}
        for each in (path, tmp_path / "out.onnx")
    )
    same = [t for t in after.values() if t.data_type == code and len(t.dims) == 2]
    (weight,) = [t for t in same if t.dims[0] * t.dims[1] == 72]
    found = integers(weight)
    found = found if found.shape == (12, 6) else found.T
    np.testing.assert_array_equal(found, integers(before["w"]))
    x = RNG.standard_normal((2, 12)).astype(np.float32)
    # both compute in float32 between the same grids: a sum between two steps may go either way
    steps = peer_of(tmp_path / "out.onnx")(x) - peer_of(path)(x)
    assert np.abs(steps).max() <= 1.01 * 0.05


def test_four_bits_may_be_packed(tmp_path: Path) -> None:
    path = layer(tmp_path / "net.onnx", TensorProto.INT4, scales(6), 0, axis=1)
    (weight,) = weights(
        only_graph(converted(path, weights_bitwidth=4, pack_4_bit_weights=True).model)
    )
    assert weight.dtype is DType.SFIXED_POINT_4
    wanted = integers(next(i for i in onnx.load(path).graph.initializer if i.name == "w"))
    np.testing.assert_array_equal(weight.stored().T, wanted)


def test_weights_that_are_moved_or_rounded_in_the_model(tmp_path: Path) -> None:
    """float -> QuantizeLinear -> DequantizeLinear -> Transpose -> Reshape, as QAT exports have."""
    w = RNG.standard_normal((6, 3, 4)).astype(np.float32)
    scale = scales(6)
    nodes = [
        *pair("x", "a"),
        node("QuantizeLinear", "w ws wz", "ws8", axis=0),
        node("DequantizeLinear", "ws8 ws wz", "wd", axis=0),
        node("Reshape", "wd shape", "flat"),
        node("Transpose", "flat", "turned", perm=[1, 0]),
        node("MatMul", "a turned", "y"),
    ]
    numbers = {"w": w, "ws": scale, "wz": np.zeros(6, np.int8), "shape": np.array([6, 12])}
    samples = RNG.standard_normal((4, 2, 12)).astype(np.float32)
    made = converted(
        saved(tmp_path / "net.onnx", nodes, (2, 12), NUMBERS | numbers), calibration=samples
    )
    (weight,) = weights(only_graph(made.model))
    assert isinstance(weight.encoding, AxisScaleOffset)
    np.testing.assert_array_equal(weight.encoding.scales, scale)
    wanted = np.clip(np.rint(w / scale[:, None, None]), -128, 127).reshape(6, 12)
    np.testing.assert_array_equal(weight.stored(), wanted)
    assert [each.tensor for each in kinds(made)["fixed"]] == ["y"]


@pytest.mark.parametrize("zero", [None, 5])
def test_microsofts_products_of_blocks(tmp_path: Path, zero: int | None) -> None:
    """MatMulNBits: two integers of 4 bits in a byte, in blocks of 16 along the sum."""
    stored = RNG.integers(0, 16, (6, 2, 16))
    packed = (stored[..., ::2] | stored[..., 1::2] << 4).astype(np.uint8)
    factors = scales(6, 2)
    how = {"N": 6, "K": 32, "bits": 4, "block_size": 16, "domain": "com.microsoft"}
    inputs = "a w ws" if zero is None else "a w ws wz"
    nodes = [*pair("x", "a"), node("MatMulNBits", inputs, "m", **how), *pair("m", "y")]
    numbers = NUMBERS | {"w": packed, "ws": factors.reshape(-1)}
    if zero is not None:
        numbers["wz"] = np.full(6, zero | zero << 4, np.uint8)
    made = converted(saved(tmp_path / "net.onnx", nodes, (2, 32), numbers))
    (weight,) = weights(only_graph(made.model))
    assert isinstance(weight.encoding, Block)
    assert weight.encoding.bitwidth == 4
    np.testing.assert_array_equal(weight.encoding.scales, factors)
    _, offsets = weight.encoding.scales_and_offsets(weight.shape)
    found = weight.stored().astype(np.int64) + offsets
    np.testing.assert_array_equal(found, stored.reshape(6, 32) - (8 if zero is None else zero))


@pytest.mark.parametrize(("inputs", "block"), [(32, 16), (24, 16), (40, 16), (24, 64)])
def test_blocks_may_have_negative_scales_and_be_cut_off(
    tmp_path: Path, inputs: int, block: int
) -> None:
    """As onnxruntime quantizes to symmetric weights: the largest number of a block becomes -8."""
    blocks = -(-inputs // block)
    stored = RNG.integers(0, 16, (6, blocks, block))
    packed = (stored[..., ::2] | stored[..., 1::2] << 4).astype(np.uint8)
    factors = scales(6, blocks) * np.where(RNG.random((6, blocks)) < 0.5, -1, 1)
    factors[1:3, 0] = -abs(factors[1, 0]), 0
    how = {"N": 6, "K": inputs, "bits": 4, "block_size": block, "domain": "com.microsoft"}
    nodes = [*pair("x", "a"), node("MatMulNBits", "a w ws", "m", **how), *pair("m", "y")]
    numbers = NUMBERS | {"w": packed, "ws": factors.astype(np.float32).reshape(-1)}
    path = saved(tmp_path / "net.onnx", nodes, (2, inputs), numbers)
    made = converted(path)
    (weight,) = weights(only_graph(made.model))
    assert isinstance(weight.encoding, Block)
    assert weight.encoding.bitwidth == 4
    whole = np.repeat(factors.astype(np.float32), block, 1)[:, :inputs]
    wanted = (stored.reshape(6, -1)[:, :inputs] - 8) * whole
    found = dequantize(weight.stored(), weight.encoding)
    np.testing.assert_array_equal(found, wanted.astype(np.float32))
    check_against_peer(path, made, (2, inputs), 0.05)


def test_blocks_that_hardly_divide_their_weights_are_told_of(tmp_path: Path) -> None:
    numbers = NUMBERS | {"w": drawn(TensorProto.UINT8, 17, 6), "ws": scales(2, 6)}
    numbers["wz"] = np.full((2, 6), 9, np.uint8)
    how = {"axis": 0, "block_size": 16}
    nodes = [*pair("x", "a"), node("DequantizeLinear", "w ws wz", "wd", **how),
             node("MatMul", "a wd", "m"), *pair("m", "y")]  # fmt: skip
    made = converted(saved(tmp_path / "net.onnx", nodes, (2, 17), numbers))
    told = "weights 'wd' are on no grid of 8 or 16 bits"
    assert any(note.startswith(told) for note in made.report.notes)


def test_changed_weights_are_not_on_the_grid_any_more(tmp_path: Path) -> None:
    """Gemm's alpha goes into the weights: the grid is found again from their values."""
    nodes = [
        *pair("x", "a"),
        node("DequantizeLinear", "w ws", "wd"),
        node("Gemm", "a wd", "m", alpha=0.3),
        *pair("m", "y"),
    ]
    numbers = {"w": drawn(TensorProto.INT8, 12, 6), "ws": np.float32(0.02)}
    path = saved(tmp_path / "net.onnx", nodes, (2, 12),
                 numbers | NUMBERS)  # fmt: skip
    made = converted(path)
    (weight,) = weights(only_graph(made.model))
    assert isinstance(weight.encoding, ScaleOffset)
    assert weight.encoding.scale == pytest.approx(0.006, rel=1e-5)
    assert "recovered" in kinds(made)["weight"][0].text


@pytest.mark.parametrize("channels", [False, True])
def test_scales_for_each_channel_replace_one_for_all(tmp_path: Path, channels: bool) -> None:
    """Not where the model has one for each already: its integers are as good as others."""
    weight = RNG.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8)
    scale = scales(4) if channels else np.float32(0.02)
    nodes = [
        *pair("x", "a"),
        node("DequantizeLinear", "w ws", "wr", axis=0),
        node("Conv", "a wr", "c"),
        *pair("c", "y"),
    ]
    numbers = NUMBERS | {"w": weight, "ws": scale}
    path = saved(tmp_path / "net.onnx", nodes, (1, 3, 6, 6), numbers)
    file = tmp_path / "none.encodings"
    file.write_text('{"activation_encodings": {}, "param_encodings": {}}')
    made = converted(path, use_per_channel_quantization=True, quantization_overrides=str(file))
    (stored,) = weights(only_graph(made.model))
    assert isinstance(stored.encoding, AxisScaleOffset)
    (uncovered,) = made.report.uncovered.values()
    assert ("wr" in uncovered) is not channels
    if channels:
        np.testing.assert_array_equal(stored.encoding.scales, scale)
        return
    greatest = np.abs(weight * scale).max(axis=(1, 2, 3))
    np.testing.assert_allclose(stored.encoding.scales, greatest / 127, rtol=1e-6)
    (left,) = kinds(made)["dropped"]
    assert "use_per_channel_quantization" in left.text


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_tables_keep_their_integers_under_one_scale(tmp_path: Path, axis: int | None) -> None:
    """Rows of several scales become a tensor of one, for which all are quantized again."""
    nodes = [
        node("DequantizeLinear", "w ws", "t", **({} if axis is None else {"axis": axis})),
        node("Gather", "t x", "rows"),
        *pair("rows", "y"),
    ]
    table = drawn(TensorProto.INT8, 12, 6)
    scale = np.float32(0.02) if axis is None else scales((12, 6)[axis])
    path = saved(tmp_path / "net.onnx", nodes, (3,), {"w": table, "ws": scale} | NUMBERS,
                 x=TensorProto.INT64)  # fmt: skip
    made = converted(path)
    (stored,) = weights(only_graph(made.model))
    assert isinstance(stored.encoding, ScaleOffset)
    if axis is None:
        assert stored.encoding.scale == np.float32(0.02)
        np.testing.assert_array_equal(stored.stored(), integers(table))
    assert ("constant" in kinds(made)) is (axis is None)


def test_blocks_behind_a_flattening_stay_whole(tmp_path: Path) -> None:
    """Conversion gives such weights another order of columns; blocks need that of the model."""
    zero = helper.make_tensor("wz", TensorProto.INT4, (4, 6), [0] * 24)
    nodes = [
        *pair("x", "a"),
        node("AveragePool", "a", "p", kernel_shape=[2, 2]),
        *pair("p", "b"),
        node("Flatten", "b", "f"),
        *pair("f", "c"),
        node("DequantizeLinear", "w ws wz", "wd", axis=0, block_size=4),
        node("Gemm", "c wd", "g"),
        *pair("g", "y"),
    ]
    numbers = {"w": drawn(TensorProto.INT4, 16, 6), "ws": scales(4, 6), "wz": zero}
    path = saved(tmp_path / "net.onnx", nodes, (1, 4, 3, 3), numbers | NUMBERS)
    made = converted(path)
    (weight,) = weights(only_graph(made.model))
    assert isinstance(weight.encoding, Block)
    np.testing.assert_array_equal(weight.stored(), integers(numbers["w"]).T)
    check_against_peer(path, made, (1, 4, 3, 3), 0.05)


def test_a_constant_stored_like_a_bias_gets_the_type_of_the_sum(tmp_path: Path) -> None:
    """An addend with 32 bits that no product precedes: an HTP adds 8 bits."""
    nodes = [
        *pair("x", "a"),
        node("DequantizeLinear", "c cs", "cd"),
        node("Add", "a cd", "m"),
        *pair("m", "y"),
    ]
    numbers = {"c": np.arange(-6, 6, dtype=np.int32) * 300, "cs": np.float32(1e-3)}
    path = saved(tmp_path / "net.onnx", nodes, (2, 12), numbers | NUMBERS)
    made = converted(path, target_backend="htp")
    (total,) = only_graph(made.model).nodes
    assert {t.dtype for t in total.inputs if t is not None} == {DType.UFIXED_POINT_8}
    assert not any("does not support" in note for note in made.report.notes)
    check_against_peer(path, made, (2, 12), 0.05)


def test_a_bias_may_also_be_a_factor(tmp_path: Path) -> None:
    """As in a GRU that resets after the product, where the state before it is 0."""
    nodes = [*pair("x", "q"), node("Gemm", "q w b", "g"), node("Mul", "q2 b", "m"),
             node("Add", "g m", "y")]  # fmt: skip
    nodes.insert(2, node("Neg", "q", "q2"))
    numbers = {
        **NUMBERS,
        "w": RNG.standard_normal((6, 6)).astype(np.float32),
        "b": RNG.standard_normal(6).astype(np.float32),
    }
    path = saved(tmp_path / "net.onnx", nodes, (2, 6), numbers)
    samples = RNG.standard_normal((8, 2, 6)).astype(np.float32)
    made = converted(path, calibration=samples)
    used = {
        n.op_type: t.dtype for n in only_graph(made.model).nodes for t in n.inputs
        if t is not None and t.source == "b"
    }  # fmt: skip
    assert used == {
        "FullyConnected": DType.SFIXED_POINT_32,
        "ElementWiseMultiply": DType.UFIXED_POINT_8,
    }
    exact = np.stack([peer_of(path)(sample) for sample in samples])
    assert sqnr_db(exact, results(made.model, samples)) > 30
