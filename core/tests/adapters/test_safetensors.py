"""Files in the format safetensors: round trips, and rejection of damaged ones."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from dovetail.adapters import read_safetensors, write_safetensors
from dovetail.errors import FrontendError

ONE = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def write(path: Path, header: Any, data: bytes = bytes(8), *, length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    count = len(text) if length is None else length
    path.write_bytes(struct.pack("<Q", count) + text + data)
    return path


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        st.tuples(
            st.sampled_from(["f2", "f4", "f8", "i1", "i4", "i8", "u1", "u2", "?"]),
            st.lists(st.integers(0, 3), max_size=3),
        ),
        max_size=5,
    )
)
@settings(max_examples=30, deadline=None)
def test_arrays_return_as_they_were(tmp_path_factory, wanted) -> None:
    wanted.pop("__metadata__", None)
    rng = np.random.default_rng(1)
    arrays = {
        name: np.asarray(rng.integers(0, 100, shape), dtype)
        for name, (dtype, shape) in wanted.items()
    }
    path = tmp_path_factory.mktemp("files") / "a.safetensors"
    write_safetensors(path, arrays, {"key": "value"})
    found = read_safetensors(path)
    assert found.metadata == {"key": "value"}
    assert found.arrays.keys() == arrays.keys()
    for name, values in arrays.items():
        assert found.arrays[name].dtype == values.dtype
        np.testing.assert_array_equal(found.arrays[name], values)


def test_the_package_safetensors_reads_and_writes_the_same(tmp_path: Path) -> None:
    arrays = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "b": np.int8([[-1], [2]]),
        "c": np.array(3, np.float16),
        "d": np.zeros((0, 2), np.uint16),
    }
    write_safetensors(tmp_path / "ours", arrays, {"k": "v"})
    save_file(arrays, tmp_path / "theirs", {"k": "v"})
    theirs, ours = load_file(tmp_path / "ours"), read_safetensors(tmp_path / "theirs")
    assert ours.metadata == {"k": "v"}
    for name, values in arrays.items():
        for found in (theirs[name], ours.arrays[name]):
            assert found.dtype == values.dtype
            np.testing.assert_array_equal(found, values)


def test_equal_contents_give_equal_bytes(tmp_path: Path) -> None:
    a, b = np.arange(3, dtype=np.float32), np.arange(4, dtype=np.uint8).reshape(2, 2).T
    write_safetensors(tmp_path / "1", {"a": a, "b": b}, {"x": "1", "y": "2"})
    write_safetensors(tmp_path / "2", {"b": b, "a": a}, {"y": "2", "x": "1"})
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_bfloat16_is_read_as_float32(tmp_path: Path) -> None:
    header = {"a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}
    path = write(tmp_path / "a", header, np.array([0x3FC0, 0xC000], "<u2").tobytes())
    np.testing.assert_array_equal(read_safetensors(path).arrays["a"], np.float32([1.5, -2]))


def test_data_at_odd_positions_are_read(tmp_path: Path) -> None:
    text = json.dumps({"a": ONE}).encode()
    text += b" " * ((3 - len(text)) % 8)
    path = write(tmp_path / "a", text, np.float32([1, 2]).tobytes())
    np.testing.assert_array_equal(read_safetensors(path).arrays["a"], np.float32([1, 2]))


@pytest.mark.parametrize(
    ("header", "data", "message"),
    [
        ({"a": ONE}, bytes(7), "the tensors take 8 bytes, but the file has 7"),
        ({"a": ONE}, bytes(9), "the tensors take 8 bytes, but the file has 9"),
        ({"a": ONE, "b": ONE}, bytes(8), "gap or overlap at byte 8"),
        ({"a": ONE | {"data_offsets": [4, 12]}}, bytes(12), "gap or overlap at byte 0"),
        ({"a": ONE | {"data_offsets": [8, 0]}}, bytes(8), "-8 bytes"),
        ({"a": ONE | {"shape": [3]}}, bytes(8), "has 8 bytes, which F32"),
        ({"a": ONE | {"shape": [-1, -2]}}, bytes(8), "impossible shape"),
        ({"a": ONE | {"shape": [2] + [1] * 70}}, bytes(8), "impossible shape"),
        ({"a": ONE | {"shape": [2**40, 2**40]}}, bytes(8), "does not take"),
        ({"a": ONE | {"dtype": "F8_E4M3"}}, bytes(8), "unsupported type 'F8_E4M3'"),
        ({"a": ONE | {"more": 1}}, bytes(8), "unknown field"),
        ({"a": 1}, bytes(8), "header is wrong"),
        ([], b"", "expected an object"),
        (b'{"a":{},"a":{}}', b"", "a name occurs twice"),
        (b"\xff\xff\xff", b"", "header is wrong"),
        (b"[" * 100_000, b"", "header is wrong"),
        ({"__metadata__": {"a": 1}}, b"", "header is wrong"),
    ],
)
def test_a_damaged_file_is_rejected(tmp_path: Path, header, data, message) -> None:
    with pytest.raises(FrontendError) as caught:
        read_safetensors(write(tmp_path / "a", header, data))
    assert message in " ".join([caught.value.message, *map(str, caught.value.problems)])


@pytest.mark.parametrize("length", [0, 1, 10**6, 2**63])
def test_a_wrong_size_of_the_header_is_rejected(tmp_path: Path, length: int) -> None:
    with pytest.raises(FrontendError, match="the size of its header is wrong"):
        read_safetensors(write(tmp_path / "a", {"a": ONE}, length=length))


def test_a_short_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1234")
    with pytest.raises(FrontendError, match="the size of its header"):
        read_safetensors(tmp_path / "a")


def test_types_that_the_format_lacks_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no type for complex64"):
        write_safetensors(tmp_path / "a", {"a": np.zeros(1, np.complex64)})
    assert not list(tmp_path.iterdir())
