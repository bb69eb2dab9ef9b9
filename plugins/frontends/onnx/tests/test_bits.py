"""Bits of integers, against NumPy, whose integers are the machine's."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from dovetail.errors import UnsupportedOpError

INTEGERS = [np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.uint64, np.int64]
COMBINE = {
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
}


def numbers(dtype, count=40):
    """Return numbers of a type, its ends among them."""
    limits = np.iinfo(dtype)
    found = np.random.default_rng(3).integers(limits.min, limits.max, count, dtype, endpoint=True)
    found[:4] = limits.min, limits.max, 0, 1
    return found


@pytest.fixture
def evaluated(model, read, evaluate):
    """Run one node."""

    def run(op_type, feeds, opset=28, **attributes):
        node = helper.make_node(op_type, list(feeds), ["y"], **attributes)
        return evaluate(read(model([node], feeds, ["y"], opset=opset)), feeds)["y"]

    return run


@pytest.mark.parametrize("op_type", COMBINE)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_bits_combined(evaluated, op_type, dtype) -> None:
    a, b = numbers(dtype).reshape(2, 4, 5), numbers(dtype, 5)[::-1]
    found = evaluated(op_type, {"a": a, "b": b}, 18)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, COMBINE[op_type](a, b))


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("dtype", [t for t in INTEGERS if np.iinfo(t).min < 0])
def test_shifts_of_signed_numbers(evaluated, dtype, direction) -> None:
    bits = np.iinfo(dtype).bits
    x = np.repeat(numbers(dtype, 8), bits + 4)
    counts = np.tile(np.array([*range(bits + 2), -1, -bits], dtype), 8)
    found = evaluated("BitShift", {"x": x, "n": counts}, direction=direction)
    turn, wanted = 1 << bits, []
    for value, count in zip(x.tolist(), counts.tolist(), strict=True):
        count = count if 0 <= count < bits else bits
        shifted = value >> count if direction == "RIGHT" else (value << count) % turn
        wanted.append(shifted - turn if shifted >= turn // 2 else shifted)
    np.testing.assert_array_equal(found, np.array(wanted, dtype))


@pytest.mark.parametrize(
    ("given", "to"),
    [(np.int8, np.uint8), (np.uint16, np.int16), (np.uint32, np.int32), (np.int32, np.uint32)],
)
def test_a_sign_read_as_a_bit_and_back(evaluated, given, to) -> None:
    x = numbers(given)
    code = helper.np_dtype_to_tensor_dtype(np.dtype(to))
    np.testing.assert_array_equal(evaluated("BitCast", {"x": x}, to=code), x.view(to))


def test_bits_of_a_float_are_refused(evaluated) -> None:
    with pytest.raises(UnsupportedOpError, match="the bits of FLOAT_32 as INT_32"):
        evaluated("BitCast", {"x": np.ones(2, np.float32)}, to=TensorProto.INT32)
