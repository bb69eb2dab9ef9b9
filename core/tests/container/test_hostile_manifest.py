"""Manifests that no writer of ours makes: a ContainerError that names the place, nothing else."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from dovetail.container import Model, summarize, verify
from dovetail.errors import ContainerError
from dovetail.ir import Tensor, to_text

from .conftest import Forge, manifest_of

Change = Callable[[Any], None]


def at(*path: str | int, value: Any) -> Change:
    """Return a change that sets one value; a path part of a new name adds it."""

    def change(manifest: Any) -> None:
        for part in path[:-1]:
            manifest = manifest[part]
        manifest[path[-1]] = value

    return change


GRAPH = ("graphs", 0)
X = (*GRAPH, "tensors", 0)
AXIS, BLOCK, EXPANDED, TEXT, WEIGHTS = ((*GRAPH, "tensors", i) for i in range(1, 6))
NODE = (*GRAPH, "nodes", 0)
FLOAT_32, INT_32, INT_8 = 0x0232, 0x0032, 0x0008


def inline(dtype: int, shape: list[int], values: list[Any]) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "values": values}


CASES: dict[str, tuple[Change, str, str]] = {
    # name: change, where it is reported, what is said
    "no graphs": (lambda m: m.pop("graphs"), "", "missing required field `graphs`"),
    "another type": (at("graphs", value=3), "$.graphs", "Expected `array`"),
    "two graphs": (
        at("graphs", 1, "name", value="prefill"),
        "$.graphs[1]",
        "duplicate graph name",
    ),
    "no version": (
        at("op_packages", value={}),
        "$.op_packages",
        "package my.pkg, qti.aisw",
    ),
    "version": (at("op_packages", "my.pkg", value=1), "$.op_packages", "Expected `str`"),
    "folder": (at("producer", "source", value="a/b"), "$.producer.source", "matching regex"),
    "source hash": (at("producer", "source_sha256", value="0" * 64 + "\n"), "$.producer", "regex"),
    # blobs
    "blob hash": (at("blobs", 0, "sha256", value="F" * 64), "$.blobs[0].sha256", "regex"),
    "blob twice": (lambda m: m["blobs"].append(m["blobs"][0]), "$.blobs", "duplicate blob"),
    "negative size": (at("blobs", 0, "size", value=-1), "$.blobs[0].size", ">= 0"),
    "huge size": (at("blobs", 0, "size", value=2**63), "$.blobs[0].size", "<="),
    "immense size": (at("blobs", 0, "size", value=2**200), "$.blobs[0].size", "<="),
    "too few checksums": (
        at("blobs", 0, "crc32", value=[]),
        "$.blobs[0]",
        "0 checksums do",
    ),
    "checksum": (at("blobs", 0, "crc32", value=[2**32]), "$.blobs[0].crc32[0]", "<"),
    "other sizes": (
        at("blobs", 0, value={"sha256": "0" * 64, "size": 2**40, "crc32": [0] * 2**18}),
        "$.blobs",
        "blobs would end at byte",
    ),
    "blobs gone": (at("blobs", value=[]), "$.blobs", "blobs would end at byte"),
    # tensors
    "no blob": (at(*WEIGHTS, "data", value=99), "tensors[5]", "blob 99 not found"),
    "negative blob": (at(*WEIGHTS, "data", value=-1), "tensors[5].data", ">= 0"),
    "shape and data": (at(*WEIGHTS, "shape", value=[64, 33]), "graph 'prefill'", "fault"),
    "dtype and data": (at(*WEIGHTS, "dtype", value=INT_8), "graph 'prefill'", "fault"),
    "dtype": (at(*X, "dtype", value=5), "tensors[0].dtype", "Invalid enum value 5"),
    "kind": (at(*X, "kind", value=14), "tensors[0].kind", "Invalid enum value 14"),
    "rank": (at(*X, "shape", value=[1] * 65), "tensors[0].shape", "length <= 64"),
    "extent": (at(*X, "shape", value=[2**33, 1, 1]), "graph 'prefill'", "fault"),
    "huge and empty": (
        at(*X, "shape", value=[2**32 - 1, 2**32 - 1, 0]),
        "tensors[0]",
        "impossible shape",
    ),
    "permutation": (at(*X, "source_perm", value=[0, 1]), "tensors[0]", "source_perm"),
    "tensor twice": (at(*AXIS, "name", value="x"), "graph 'prefill'", "duplicate tensor name 'x'"),
    "static without data": (lambda m: m["graphs"][0]["tensors"][5].pop("data"), "graph", "fault"),
    "input with data": (at(*X, "data", value=0), "graph 'prefill'", "fault"),
    "fewer texts": (at(*TEXT, "shape", value=[2]), "tensors[4]", "2 texts"),
    # encodings
    "no such encoding": (at(*X, "encoding", "encoding", value="x"), "encoding.encoding", "'x'"),
    "encoding without kind": (at(*X, "encoding", value={}), "encoding", "missing required"),
    "huge offset": (at(*X, "encoding", "offset", value=10**30), "encoding.offset", "<="),
    "huge scale": (at(*X, "encoding", "scale", value=10**400), "$", ""),
    "negative scale": (at(*X, "encoding", "scale", value=-1.0), "graph 'prefill'", "fault"),
    "axis": (at(*AXIS, "encoding", "axis", value=2), "graph 'prefill'", "fault"),
    "bitwidth": (at(*AXIS, "encoding", "bitwidth", value=9), "graph 'prefill'", "fault"),
    "rank of scales": (
        at(*AXIS, "encoding", "scales", "shape", value=[8, 10]),
        "tensors[1].encoding",
        "unexpected array",
    ),
    "scales of a blob": (
        at(*AXIS, "encoding", "scales", "shape", value=[79]),
        "tensors[1].encoding",
        "320 bytes where FLOAT_32 (79,) takes 316",
    ),
    "impossible shape": (
        at(*AXIS, "encoding", "scales", value={"dtype": FLOAT_32, "shape": [1]}),
        "tensors[1].encoding",
        "neither",
    ),
    "both arrays": (
        at(*AXIS, "encoding", "scales", "values", value=[1]),
        "tensors[1].encoding",
        "both",
    ),
    "no array blob": (
        at(*AXIS, "encoding", "scales", "blob", value=9),
        "encoding",
        "blob 9 not found",
    ),
    "type of scales": (
        at(*BLOCK, "encoding", "scales", "dtype", value=INT_32),
        "tensors[2].encoding",
        "INT_32",
    ),
    "too few values": (
        at(*BLOCK, "encoding", "scales", "values", value=[1.0]),
        "tensors[2].encoding",
        "1 values",
    ),
    "broken offset": (
        at(*BLOCK, "encoding", "offsets", "values", value=[0.5, 0]),
        "tensors[2].encoding",
        "INT_32",
    ),
    "wide offset": (
        at(*BLOCK, "encoding", "offsets", "values", value=[2**31, 0]),
        "tensors[2].encoding",
        "INT_32",
    ),
    "scale no float32": (
        at(*BLOCK, "encoding", "scales", "values", value=[0.1, 1]),
        "tensors[2].encoding",
        "FLOAT_32",
    ),
    "scale past float32": (
        at(*BLOCK, "encoding", "scales", "values", value=[1e300, 1]),
        "tensors[2].encoding",
        "FLOAT_32",
    ),
    "scale past float64": (
        at(*BLOCK, "encoding", "scales", "values", value=[10**400, 1]),
        "tensors[2].encoding",
        "too large",
    ),
    "no block": (at(*BLOCK, "encoding", "block_size", value=[0, 2]), "graph 'prefill'", "fault"),
    "impossible scales": (
        at(*BLOCK, "encoding", "scales", value=inline(FLOAT_32, [2**62, 2**62, 0], [])),
        "tensors[2].encoding",
        "cannot have the shape",
    ),
    "factor bits": (
        at(*EXPANDED, "encoding", "block_scale_bitwidth", value=10**18),
        "block_scale_bitwidth",
        "<= 16",
    ),
    "factors": (
        at(*EXPANDED, "encoding", "block_scales", "values", value=[1, 2, 16, 0]),
        "graph 'prefill'",
        "fault",
    ),
    # nodes
    "node twice": (
        at(*GRAPH, "nodes", 1, "name", value="first"),
        "graph 'prefill'",
        "duplicate node name",
    ),
    "no tensor": (at(*NODE, "inputs", value=[99]), "nodes[0]", "tensor 99 not found"),
    "no output": (at(*NODE, "outputs", value=[99]), "nodes[0]", "tensor 99 not found"),
    "writes the other's": (at(*GRAPH, "nodes", 1, "outputs", value=[7]), "second", "written by"),
    "writes an input": (at(*GRAPH, "nodes", 1, "outputs", value=[0]), "graph 'prefill'", "fault"),
    "cycle": (at(*NODE, "inputs", value=[8]), "graph 'prefill'", "fault"),
    "param twice": (
        lambda m: m["graphs"][0]["nodes"][0]["params"].append({"name": "on"}),
        "nodes[0]",
        "duplicate param 'on'",
    ),
    "no param": (at(*NODE, "params", value=[{"name": "p"}]), "params[0]", "either"),
    "scalar range": (
        at(*NODE, "params", 1, "scalar", "value", value=2**32),
        "params[1].scalar",
        "UINT_32 does not hold",
    ),
    "scalar type": (at(*NODE, "params", 1, "scalar", "value", value="2"), "params[1]", "UINT_32"),
    "scalar list": (at(*NODE, "params", 1, "scalar", "value", value=[]), "params[1]", "Expected"),
    "infinite integer": (at(*NODE, "params", 1, "scalar", "value", value="inf"), "params[1]", ""),
    "param without data": (
        lambda m: m["graphs"][0]["nodes"][0]["params"][4]["tensor"].pop("data"),
        "graph 'prefill'",
        "fault",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_impossible_manifest_is_refused(name: str, saved: Path, forge: Forge) -> None:
    change, where, what = CASES[name]
    manifest = manifest_of(saved)
    change(manifest)
    path = forge(json.dumps(manifest).encode())  # msgspec writes no integers above 64 bits
    with pytest.raises(ContainerError) as caught:
        Model.load(path)
    assert caught.value.code == "CONTAINER_INVALID"
    assert caught.value.where.startswith(str(path))
    assert where in caught.value.where
    assert what in caught.value.message


def test_the_forge_itself_changes_nothing(saved: Path, forge: Forge) -> None:
    # or every refusal above might be for another reason
    assert forge(manifest_of(saved)).read_bytes() == saved.read_bytes()


@pytest.mark.parametrize(
    "path",
    [(), ("producer",), ("blobs", 0), GRAPH, X, (*X, "encoding"), NODE, (*NODE, "params", 0)],
    ids=str,
)
def test_unknown_keys_are_refused(path: tuple[str | int, ...], saved: Path, forge: Forge) -> None:
    manifest = manifest_of(saved)
    at(*path, "color", value="red")(manifest)
    with pytest.raises(ContainerError, match="color"):
        Model.load(forge(manifest))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"{} {}",
        b"\xef\xbb\xbf{}",
        b'{"blobs": NaN}',
        b'{"blobs": Infinity}',
        b'{"blobs": 1e400}',
        b'{"blobs": "\xff"}',
        b'{"blobs": "\\ud800"}',
        b"[" * 1_000_000,
        b'{"blobs":' * 500_000,
        b"9" * 10_000,
        b"null",
        b"[]",
    ],
    ids=lambda text: repr(text[:20]),
)
def test_what_is_no_json_object_is_refused(text: bytes, forge: Forge) -> None:
    path = forge(text)
    with pytest.raises(ContainerError) as caught:
        Model.load(path)
    assert caught.value.code == "CONTAINER_INVALID"
    assert caught.value.where.startswith(str(path))


JUNK: list[Any] = [
    None, True, False, 0, 1, -1, 7, 64, 65, 255, 2**31, 2**32 - 1, 2**62, 2**63, 2**64, 10**30,
    0.5, -0.0, 1e300, "", "x", "prefill", "inf", "nan", "\0", "a/b", [], {}, [0], [1, 1], [2**40],
    [0] * 70, [[]], {"encoding": "block"}, FLOAT_32, INT_8, 0x0608, 0x0304, 0x7FFFFFFF,
]  # fmt: skip


def places(data: Any, found: list[tuple[Any, Any]] | None = None) -> list[tuple[Any, Any]]:
    """Every container within some JSON data, with every key in it."""
    found = [] if found is None else found
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in items:
        found.append((data, key))
        if isinstance(value, dict | list):
            places(value, found)
    return found


def mutate(manifest: Any, rng: random.Random) -> None:
    """Replace, removes, doubles, moves or swaps one value, wherever it is."""
    found = places(manifest)
    inside, key = rng.choice(found)
    other, source = rng.choice(found)
    what = rng.randrange(6)
    if what == 0:
        del inside[key]
    elif what == 1 and isinstance(inside, list):
        inside.insert(key, copy.deepcopy(inside[key]))
    elif what == 2:
        inside[key] = copy.deepcopy(other[source])
    elif what == 3 and isinstance(inside[key], int):
        inside[key] += rng.choice([-1, 1, 256])
    else:
        inside[key] = copy.deepcopy(rng.choice(JUNK))


def use(path: Path) -> None:
    """Does with a file whatever may be done with a good one."""
    loaded = Model.load(path)
    summarize(path)
    for graph in loaded.graphs.values():
        to_text(graph)
        params = (p for node in graph.nodes for p in node.params.values())
        for tensor in (*graph.tensors.values(), *params):
            if isinstance(tensor, Tensor) and tensor.data is not None:
                values = tensor.values()
                assert values.shape == tensor.shape
                if tensor.encoding is not None:
                    for grid in tensor.encoding.scales_and_offsets(tensor.shape):
                        assert np.broadcast_shapes(grid.shape, tensor.shape) == tensor.shape


def refusal_of(path: Path) -> ContainerError | None:
    """Return why a file cannot be used; any other error is the test's failure."""
    try:
        use(path)
    except ContainerError as error:
        return error
    return None


def test_no_mutated_manifest_gives_anything_but_a_container_error(
    saved: Path, forge: Forge
) -> None:
    rng = random.Random(2)
    original = msgspec.json.encode(manifest_of(saved))
    refused = 0
    for _ in range(1000):
        manifest = msgspec.json.decode(original)
        for _ in range(rng.choice([1, 1, 1, 2, 5])):
            mutate(manifest, rng)
        path = forge(json.dumps(manifest).encode())
        error = refusal_of(path)
        # the complete check must come to the same verdict
        assert bool(verify(path)) is (error is not None)
        if error is not None:
            refused += 1
            assert str(path) in error.where
    assert 350 < refused < 950  # most changes do harm, but not all


def test_no_mutated_text_gives_anything_but_a_container_error(saved: Path, forge: Forge) -> None:
    rng = random.Random(3)
    original = msgspec.json.encode(manifest_of(saved))
    letters = b'0123456789-+.eE"[]{},:ntf\\u \x00\x7f\xff'
    refused = 0
    for _ in range(500):
        text = bytearray(original)
        for _ in range(rng.choice([1, 1, 3])):
            text[rng.randrange(len(text))] = rng.choice(letters)
        refused += refusal_of(forge(bytes(text))) is not None
    assert 100 < refused < 500
