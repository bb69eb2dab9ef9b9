"""Versions 1.0.0, 2.0.0, 2.1.0 and `model_net.json`: what they say."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from dovetail.container.entries import dump_encoding
from dovetail.ir import AxisScaleOffset
from dovetail_quantizers.files import QNN_JSON, Form

CHANNELS = {
    "name": "w",
    "dtype": "INT",
    "enc_type": "PER_CHANNEL",
    "bw": 4,
    "is_sym": True,
    "scale": [0.5, 0.25],
    "offset": [-8, -8.0],
}
BLOCKS = CHANNELS | {
    "enc_type": "PER_BLOCK",
    "scale": [0.5, 0.25, 1.0, 2.0],
    "offset": [-8] * 4,
    "block_size": 3,
}
EXPANDED = CHANNELS | {
    "enc_type": "LPBQ",
    "bw": 8,
    "offset": [-128, -128],
    "block_size": 3,
    "compressed_bw": 4,
    "per_block_int_scale": [1, 16, 2, 3],
}


# -- 1.0.0 -----------------------------------------------------------------------------------------


def test_channels_and_blocks_come_flat_without_an_axis(read: Any, new: Any) -> None:
    entries = read(new(CHANNELS, BLOCKS | {"name": "b"}, EXPANDED | {"name": "l"})).params
    assert [e.form for e in entries.values()] == [Form.PER_CHANNEL, Form.PER_BLOCK, Form.LPBQ]
    assert all(e.axis is None and e.is_centered for e in entries.values())
    assert entries["b"].scales.tolist() == [0.5, 0.25, 1.0, 2.0]
    assert entries["l"].block_scales.tolist() == [[1, 16], [2, 3]]
    assert (entries["l"].bitwidth, entries["l"].compressed_bitwidth) == (8, 4)


def test_a_positive_offset_is_a_zero_point_and_noted(read: Any, new: Any) -> None:
    entry = CHANNELS | {"enc_type": "PER_TENSOR", "bw": 8, "scale": [0.1], "offset": [61]}
    file = read(new(entry | {"is_sym": False}))
    assert int(file.entries["w"].offsets) == -61
    assert "'w' at $.param_encodings[0].offset" in str(file.notes[0])


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"enc_type": "VECTOR"}, "vector quantization"),
        ({"enc_type": "PER_ROW"}, "PER_ROW: unknown"),
        ({"scale": [0.5]}, "1 scales, but 2 offsets"),
        ({"scale": []}, "'scale' is missing or empty"),
        ({"scale": None}, "'scale' is missing or empty"),
        ({"enc_type": "PER_TENSOR"}, "2 scales for a whole tensor"),
        ({"scale": [0.5, -1]}, "negative"),
        ({"scale": [0.5, float("nan")]}, "not a "),
        ({"offset": [-8, -16]}, "outside the grid of 4 bits"),
        ({"bw": 33}, "33 bits"),
        ({"dtype": "FLOAT", "bw": 8}, "floats have 16 or 32"),
        ({"dtype": "int"}, "int"),
        ({"bitwidth": 4}, "unknown key"),
        ({"enc_type": "PER_BLOCK"}, "block size of None"),
        ({"enc_type": "PER_BLOCK", "block_size": 0}, "block size of 0"),
        ({"enc_type": "PER_BLOCK", "block_size": 10**18}, "block size of 10000"),
        ({"enc_type": "PER_BLOCK", "block_size": 2, "scale": [0, 0], "offset": [0, 0]}, "scale of"),
        (EXPANDED | {"per_block_int_scale": [1, 2, 3]}, "3 factors of blocks for 2 channels"),
        (EXPANDED | {"per_block_int_scale": [0, 1]}, "from 1 to 16"),
        (EXPANDED | {"per_block_int_scale": [1, 17]}, "from 1 to 16"),
        (EXPANDED | {"per_block_int_scale": None}, "from 1 to 16"),
        (EXPANDED | {"compressed_bw": 8}, "8 bits compressed from 8"),
        ({"zero_point_shift": [float("inf")]}, "not a "),
    ],
)
def test_faults_of_1_0_0(faults: Any, new: Any, change: dict[str, Any], part: str) -> None:
    (found,) = faults(new(CHANNELS | change))
    assert part in f"{found.message} {found.hint}"
    assert found.where.startswith("'w' at $.param_encodings[0]")


def test_a_name_comes_once(faults: Any, new: Any) -> None:
    (found,) = faults(new(CHANNELS, CHANNELS))
    assert "another entry has the same name" in found.message
    assert found.where == "'w' at $.param_encodings[1]"


# -- 2.x -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "zero_point", "offset", "symmetric"),
    [
        ("uint8", 61, -61, False),
        ("uint8", None, 0, False),
        ("int8", None, -128, True),
        ("int8", 5, -133, False),
        ("int8", -128, 0, False),
        ("int16", None, -32768, True),
        ("int2", None, -2, True),
        ("int32", None, -(2**31), True),
    ],
)
def test_zero_points_count_on_the_stored_type(
    read: Any, onnx_like: Any, dtype: str, zero_point: Any, offset: int, symmetric: bool
) -> None:
    data = {"name": "t", "output_dtype": dtype, "y_scale": 0.1}
    if zero_point is not None:
        data["y_zero_point"] = zero_point
    entry = read(onnx_like(data)).entries["t"]
    assert (int(entry.offsets), entry.symmetric) == (offset, symmetric)
    # the same stored integer means the same in both conventions
    low = -(2 ** (entry.bitwidth - 1)) if dtype.startswith("int") else 0
    real = (low - (zero_point or 0)) * 0.1
    assert (0 + offset) * 0.1 == pytest.approx(real)


WEIGHT = {"name": "w", "output_dtype": "int4", "axis": 1, "y_scale": [0.5, 0.25]}


def test_channels_blocks_and_factors_have_an_axis(read: Any, onnx_like: Any) -> None:
    blocks = {"name": "b", "block_size": 4, "y_scale": [[0.5, 0.25], [1, 2], [3, 4]]}
    factors = {
        "name": "l",
        "output_dtype": "int4",
        "axis": 0,
        "block_size": 4,
        "per_block_int_scale": [[1, 16, 3]],
        "per_channel_float_scale": [[0.1, 0.2, 0.3]],
    }
    entries = read(onnx_like(WEIGHT, WEIGHT | blocks, factors)).entries
    assert [(e.form, e.axis) for e in entries.values()] == [
        (Form.PER_CHANNEL, 1),
        (Form.PER_BLOCK, 1),
        (Form.LPBQ, 0),
    ]
    assert entries["b"].scales.shape == (3, 2)
    assert (entries["l"].bitwidth, entries["l"].compressed_bitwidth) == (8, 4)
    assert entries["l"].offsets.tolist() == [[-128, -128, -128]]


def test_lpbq_of_2_1_0_says_the_same_in_other_words(read: Any, onnx_like: Any) -> None:
    common = {"name": "l", "output_dtype": "int4", "axis": 1, "block_size": 4}
    old = {"per_block_int_scale": [[1, 2], [3, 4]], "per_channel_float_scale": [[0.5], [0.25]]}
    new = {"y_scale": {"axis": 1, "x": [[1, 2], [3, 4]], "x_scale": [[0.5], [0.25]]}}
    first = read(onnx_like(common | old)).entries
    assert read(onnx_like(common | new, version="2.1.0")).entries == first


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"output_dtype": "float8e4m3fn"}, "'float8e4m3fn' is not supported"),
        ({"y_scale": None}, "'y_scale' is missing"),
        ({"y_scale": []}, "an empty list"),
        ({"y_scale": [0.5, "x"]}, "regular list of numbers"),
        ({"y_scale": [[0.5], [0.5, 1]]}, "regular list of numbers"),
        ({"y_scale": [0.5, 10**400]}, "regular list of numbers"),
        ({"y_scale": [0.5, -0.5]}, "negative"),
        ({"y_scale": [[0.5, 0.5]]}, "no block_size"),
        ({"axis": None}, "no axis"),
        ({"axis": -1}, "axis -1"),
        ({"y_zero_point": [1, 2, 3]}, "shape (3,)"),
        ({"y_zero_point": [0, 9]}, "from -8 to 7"),
        ({"y_zero_point": [0, 0.5]}, "whole number"),
        ({"block_size": 4}, "blocks along axis 1"),
        ({"block_size": -4, "y_scale": [[1, 1]]}, "block size of -4"),
        ({"per_block_int_scale": [[1]]}, "'per_channel_float_scale' is missing"),
        (
            {"per_block_int_scale": [[1, 2]], "per_channel_float_scale": [[1, 2]], "block_size": 2},
            "scales of shape (1, 2) for factors of shape (1, 2)",
        ),
        (
            {"per_block_int_scale": [[1, 99]], "per_channel_float_scale": [[1]], "block_size": 2},
            "from 1 to 16",
        ),
    ],
)
def test_faults_of_2_0_0(faults: Any, onnx_like: Any, change: dict[str, Any], part: str) -> None:
    (found,) = faults(onnx_like(WEIGHT | change))
    assert part in found.message
    assert found.where.startswith("'w' at $.encodings[0]")


# -- model_net.json --------------------------------------------------------------------------------

UNDEFINED = {"definition": 0x7FFFFFFF, "encoding": 0x7FFFFFFF, "scale_offset": {}}


def tensor(data_type: int, params: dict[str, Any], kind: int = 3) -> dict[str, Any]:
    return {"id": 1, "type": kind, "data_type": data_type, "dims": [1], "quant_params": params}


def test_a_converted_model(read: Any) -> None:
    pairs = [{"scale": 0.5, "offset": 0}, {"scale": 0.25, "offset": 0, "bitwidth": 8}]
    along = {"axis": 3, "num_scale_offsets": 2, "scale_offsets": pairs}
    one = {"definition": 1, "encoding": 0, "scale_offset": {"scale": 0.1, "offset": -61}}
    tensors = {
        "x": tensor(1032, one, 0),
        "w": tensor(776, {"definition": 1, "encoding": 1, "axis_scale_offset": along}, 4),
        "n": tensor(
            776,
            {
                "definition": 1,
                "encoding": 2,
                "bw_scale_offset": {"bitwidth": 4, "scale": 1, "offset": 0},
            },
        ),
        "f": tensor(562, UNDEFINED | {"scale_offset": {"scale": 0.0, "offset": 0}}),
        "i": tensor(306, UNDEFINED | {"scale_offset": {"scale": 0.0, "offset": 0}}),
    }
    file = read({"model.cpp": "m.cpp", "graph": {"tensors": tensors, "nodes": {}}})
    entries = file.entries
    assert file.version == QNN_JSON
    assert set(entries) == {"x", "w", "n", "f"}
    assert (int(entries["x"].offsets), entries["x"].is_param) == (-61, False)
    assert (entries["w"].offsets.tolist(), entries["w"].axis) == ([-128, -128], 3)
    assert entries["w"].symmetric
    assert entries["w"].is_param
    assert (entries["n"].bitwidth, int(entries["n"].offsets)) == (4, -8)
    assert (entries["f"].kind, entries["f"].bitwidth) == ("float", 32)


def own(entry: dict[str, Any]) -> dict[str, Any]:
    return tensor(776, {"definition": 1, "encoding": 3, "dovetail": entry}, 4)


def test_an_encoding_under_the_key_of_the_exporter(read: Any) -> None:
    encoding = AxisScaleOffset(1, np.array([0.5, 0.25], np.float32), bitwidth=4)
    entry = msgspec.to_builtins(dump_encoding(encoding, None, ""))
    found = read({"graph": {"tensors": {"w": own(entry)}, "nodes": {}}}).entries["w"]
    assert (found.bitwidth, found.axis, found.is_param) == (4, 1, True)
    assert found.scales.tolist() == [0.5, 0.25]
    assert found.offsets.tolist() == [-8, -8]
    assert found.symmetric


SCALES = {"dtype": 562, "shape": [2], "values": [0.5, 0.25]}
ALONG = {"encoding": "axis_scale_offset", "axis": 1, "scales": SCALES}


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        (own(ALONG | {"offsets": {"dtype": 50, "shape": [1], "values": [1]}}), "1 offsets for 2"),
        (own(ALONG | {"bitwidth": 9}), "a bitwidth of 9 for SFIXED_POINT_8"),
        (
            own(ALONG | {"scales": SCALES | {"shape": [3]}}),
            "2 values do not match the shape (3,)",
        ),
        (
            own({"encoding": "block", "block_size": [1, 2], "scales": SCALES | {"shape": [2, 1]}}),
            "kind BLOCK is not read",
        ),
        (tensor(9999, UNDEFINED), "9999 is not a data type"),
        (tensor(1032, {"definition": 1, "encoding": 4}), "encoding 4 is not read"),
        (tensor(1032, {"definition": 1, "encoding": 1}), "'axis_scale_offset' is missing"),
        (
            tensor(
                1032,
                {"definition": 1, "encoding": 0, "scale_offset": {"scale": -1, "offset": 0}},
            ),
            "negative",
        ),
        (
            tensor(
                1032,
                {"definition": 1, "encoding": 0, "scale_offset": {"scale": 1, "offset": 10**400}},
            ),
            "out of range",
        ),
        (
            tensor(
                306, {"definition": 1, "encoding": 0, "scale_offset": {"scale": 1, "offset": 0}}
            ),
            "takes no encoding",
        ),
    ],
)
def test_faults_of_a_converted_model(faults: Any, changed: dict[str, Any], part: str) -> None:
    (found,) = faults({"graph": {"tensors": {"t": changed}}})
    assert part in found.message
    assert "'t' at $.graph.tensors.t" in found.where


def test_numpy_arrays_are_doubles_of_the_tensor_s_shape(read: Any, onnx_like: Any) -> None:
    scales = read(onnx_like(WEIGHT)).entries["w"].scales
    assert scales.dtype == np.float64
    assert scales.shape == (2,)
