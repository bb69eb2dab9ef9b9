"""FlatBuffers: bytes worked out by hand, round trips, and every kind of damage."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from dovetail_qnn.dlc.flatbuffers import (
    BYTES,
    FLOAT32,
    INT32,
    STRING,
    UINT8,
    UINT64,
    WIDE_FLOAT,
    WIDE_INT,
    FaultList,
    Table,
    Vector,
    decode,
    encode,
    identifier_of,
    slot,
)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A table with numbers of all widths, and gaps between its slots."""

    small: int = slot(0, UINT8)
    whole: int = slot(2, WIDE_INT)
    real: float = slot(3, WIDE_FLOAT)
    single: float = slot(5, FLOAT32)
    large: int = slot(6, UINT64)
    kind: int = slot(7, INT32, 5)


@dataclass(frozen=True, slots=True)
class Tree:
    """A table that may contain its own kind."""

    name: str | None = slot(0, STRING)
    words: tuple[str, ...] = slot(1, Vector(STRING))
    counts: tuple[int, ...] = slot(2, Vector(INT32))
    data: bytes | None = slot(3, BYTES)
    leaf: Leaf | None = slot(4, Table(lambda: Leaf))
    children: tuple[Tree, ...] = slot(5, Vector(Table(lambda: Tree)))


def read(data: bytes, declared: type[Any] = Tree) -> tuple[Any, list[str]]:
    faults = FaultList()
    found = decode(memoryview(data), declared, "file", faults)
    return found, [f"{p.where} | {p.message}" for p in faults.problems]


INTS = st.integers(-(2**63), 2**63 - 1)
LEAVES = st.builds(
    Leaf,
    small=st.integers(0, 255),
    whole=INTS,
    real=st.floats(allow_nan=False),
    single=st.floats(width=32, allow_nan=False),
    large=st.integers(0, 2**64 - 1),
    kind=st.integers(-(2**31), 2**31 - 1),
)
TREES = st.recursive(
    st.builds(Tree, name=st.none() | st.text(), leaf=st.none() | LEAVES),
    lambda inner: st.builds(
        Tree,
        name=st.text(),
        words=st.lists(st.text(), max_size=3).map(tuple),
        counts=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=4).map(tuple),
        data=st.binary(max_size=9),
        leaf=st.none() | LEAVES,
        children=st.lists(inner, max_size=3).map(tuple),
    ),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(TREES)
def test_tables_are_read_as_they_were_written(tree: Tree) -> None:
    data = encode(tree, b"TEST")
    assert identifier_of(memoryview(data)) == b"TEST"
    found, faults = read(data)
    assert faults == []
    assert found == tree
    assert encode(found, b"TEST") == data


def test_bytes_that_another_writer_would_write() -> None:
    # root offset, identifier, vtable (length 6, table 8, slot 0 at 4), table, string with its NUL
    data = struct.pack("<I4s3HxxiI", 16, b"TEST", 6, 8, 4, 8, 4) + struct.pack("<I3sx", 3, b"abc")
    found, faults = read(data)
    assert (found, faults) == (Tree(name="abc"), [])


@pytest.mark.parametrize(("code", "size"), [("i", 12), ("q", 16)])
def test_a_wide_number_may_have_four_bytes(code: str, size: int) -> None:
    # Leaf: slot 2 at 4; the table ends after it
    table = struct.pack(f"<i{code}", 12, -7).ljust(size - 4, b"\0")
    data = struct.pack("<I4s5Hxx", 20, b"TEST", 10, len(table), 0, 0, 4) + table
    assert read(data, Leaf) == (Leaf(whole=-7), [])


@pytest.mark.parametrize(("code", "value"), [("f", 0.5), ("d", 0.1)])
def test_a_wide_float_may_be_single(code: str, value: float) -> None:
    table = struct.pack(f"<i{code}", 12, value)
    data = struct.pack("<I4s6H", 20, b"TEST", 12, len(table), 0, 0, 0, 4) + table
    assert read(data, Leaf) == (Leaf(real=value), [])


def test_negative_zero_is_no_default() -> None:
    found, _ = read(encode(Leaf(real=-0.0), b"TEST"), Leaf)
    assert struct.pack("<d", found.real) == struct.pack("<d", -0.0)


@given(TREES, st.data())
@settings(max_examples=200, deadline=None)
def test_damage_is_reported_or_harmless(tree: Tree, data: st.DataObject) -> None:
    whole = bytearray(encode(tree, b"TEST"))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
    found, faults = read(bytes(whole[: data.draw(st.integers(0, len(whole)))]))
    assert isinstance(found, Tree)
    assert all(fault.startswith("file") for fault in faults)


def test_all_faults_are_listed_with_their_paths() -> None:
    tree = Tree(children=(Tree(name="first"), Tree(name="second"), Tree(words=("a", "b"))))
    data = bytearray(encode(tree, b"TEST"))
    for word in (b"first", b"b\0"):
        at = data.index(word)
        data[at] = 0xFF
    at = data.index(b"second")
    struct.pack_into("<I", data, at - 4, 2**31)
    _, faults = read(bytes(data))
    assert [fault.split(" | ")[0] for fault in faults] == [
        "file: children[0].name",
        "file: children[1].name",
        "file: children[2].words[1]",
    ]


def test_shared_tables_take_no_more_than_the_buffer() -> None:
    tree = Tree()
    for _ in range(6):
        tree = Tree(children=(tree, *(Tree() for _ in range(49))))
    data = bytearray(encode(tree, b"TEST"))
    for at in range(0, len(data) - 4, 4):
        if struct.unpack_from("<I", data, at)[0] == 50:  # a vector: all offsets to its first table
            first = at + 4 + struct.unpack_from("<I", data, at + 4)[0]
            for i in range(1, 50):
                struct.pack_into("<I", data, at + 4 + 4 * i, first - (at + 4 + 4 * i))
    _, faults = read(bytes(data))  # 50 ** 6 tables
    assert f"share parts so that they exceed the {len(data)} bytes" in faults[0]
    assert len(faults) <= 100


def test_nesting_is_limited() -> None:
    tree = Tree()
    for _ in range(40):
        tree = Tree(children=(tree,))
    _, faults = read(encode(tree, b"TEST"))
    assert len(faults) == 1
    assert "nested more than 32 deep" in faults[0]


@pytest.mark.parametrize("length", [0, 3, 7])
def test_a_buffer_that_is_cut_short(length: int) -> None:
    found, faults = read(encode(Tree(name="x"), b"TEST")[:length])
    assert found == Tree()
    assert faults == [f"file | the buffer is cut short: {length} bytes"]
