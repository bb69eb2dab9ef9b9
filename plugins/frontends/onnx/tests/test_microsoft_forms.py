"""What operators of the domain com.microsoft become; forms that ONNX Runtime's kernels lack."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from microsoft_cases import Known, case, make_model, run_peer
from onnx import helper

from dovetail import plugins
from dovetail.ir import Block, DType, TensorKind

F32 = np.float32
TWO = {"num_heads": 2}


def data(rng, *shape):
    """Return numbers around 0."""
    return rng.normal(size=shape).astype(F32)


def kinds(graph):
    """Return the ops of a graph, in order."""
    return [node.op_type for node in graph.nodes]


# -- constants stay constants ------------------------------------------------------------------


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_weights_of_a_few_bits_are_spelt_out(read, rng, bits) -> None:
    units, inputs, block = 3, 40, 32  # the second block is cut off
    packed = rng.integers(0, 256, (units, 2, block * bits // 8), np.uint8)
    scales, zeros = data(rng, units, 2), rng.integers(0, 256, (units, 1), np.uint8)
    attributes = {"N": units, "K": inputs, "block_size": block, "bits": bits}
    x = data(rng, 2, inputs)
    # two zero points of 8 bits take two bytes
    points = rng.integers(0, 256, (units, 2), np.uint8) if bits == 8 else zeros
    given = [x, Known(packed), Known(scales), Known(points)]
    (node,) = read(case("MatMulNBits", "", given, **attributes).model).nodes
    assert node.op_type == "FullyConnected"
    assert node.inputs[1].kind is TensorKind.STATIC
    found = node.inputs[1].values()
    for unit in range(units):
        for row in range(inputs):
            which, place = divmod(row, block)
            byte = int(packed[unit, which, place * bits // 8])
            stored = byte >> (place * bits % 8) & (2**bits - 1)
            point = int(points[unit, which * bits // 8]) >> (which * bits % 8) & (2**bits - 1)
            assert found[unit, row] == F32(stored - point) * scales[unit, which]


def test_a_table_of_few_bits_keeps_its_grid(read, rng) -> None:
    table, scales = rng.integers(0, 256, (5, 16), np.uint8), rng.uniform(0.01, 0.1, (5, 2))
    given = [Known(table), np.zeros((1, 3), np.int64), Known(scales.astype(F32))]
    graph = read(case("GatherBlockQuantized", "", given, block_size=16).model)
    assert kinds(graph)[-1] == "Gather"
    grid = graph.source_encodings["c0"]
    assert (grid.dtype, grid.shape) == (DType.SFIXED_POINT_8, (5, 32))
    assert isinstance(grid.encoding, Block)
    assert grid.encoding.bitwidth == 4


def test_known_weights_are_transposed_at_import(read, rng) -> None:
    given = case("FusedMatMul", "", [data(rng, 2, 3, 4), Known(data(rng, 5, 4))], transB=1)
    assert kinds(read(given.model)) == ["MatMul"]


def test_stored_weights_become_real_at_import(read, rng) -> None:
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["r"], domain="com.microsoft"),
        helper.make_node("MatMul", ["x", "r"], ["y"], name="product"),
    ]
    stored = rng.integers(0, 2**16, (4, 5), np.uint16)
    known = {"w": stored, "s": np.array(0.5, F32), "z": np.array(30000, np.uint16)}
    x = data(rng, 2, 4)
    (node,) = read(make_model(nodes, {"x": x}, ["y"], known)).nodes
    want = (stored.astype(np.int64) - 30000).T * 0.5
    np.testing.assert_array_equal(node.inputs[1].values(), want)


def test_known_masks_and_places_cost_nothing_at_run_time(read, rng) -> None:
    mask = Known(np.array([[1, 1, 0]], np.int32))
    x, w, b = data(rng, 1, 3, 4), Known(data(rng, 4, 12)), Known(data(rng, 12))
    found = kinds(read(case("Attention", "", [x, w, b, mask], unidirectional=1, **TWO).model))
    assert found.count("ElementWiseAdd") == 2  # the mask, and what hides the rows ahead
    assert not {"ElementWiseSelect", "ElementWiseGreater", "Cast"} & set(found)
    places = Known(np.array([[0, 1, 2]], np.int64))
    tables = [Known(data(rng, 9, 2)), Known(data(rng, 9, 2))]
    found = kinds(read(case("RotaryEmbedding", "", [x, places, *tables]).model))
    assert "Gather" not in found


def test_heads_of_keys_are_not_repeated(read, rng) -> None:
    lengths = [Known(np.array([2], np.int32)), Known(np.array(3, np.int32))]
    given = [data(rng, 1, 3, 32), data(rng, 1, 3, 8), data(rng, 1, 3, 8), None, None, *lengths]
    graph = read(case("GroupQueryAttention", "", given, num_heads=8, kv_num_heads=2).model)
    assert {"Tile", "Concat", "Gather"}.isdisjoint(kinds(graph))
    products = [n for n in graph.nodes if n.op_type == "MatMul"]
    assert [n.inputs[0].shape[:2] for n in products] == [(1, 2), (1, 2)]


def test_layers_share_what_hides_the_rows_ahead(read, run, rng) -> None:
    domain = {"domain": "com.microsoft"}
    known = {"w": data(rng, 4, 12), "b": data(rng, 12)}
    nodes = [
        helper.make_node("Attention", [x, "w", "b"], [y], name=y, unidirectional=1, **TWO, **domain)
        for x, y in (("x", "first"), ("first", "second"))
    ]
    feeds = {"x": data(rng, 1, 3, 4)}
    model = make_model(nodes, feeds, ["second"], known)
    graph = read(model)
    biases = [n.inputs[1] for n in graph.nodes if n.inputs[1:] and n.inputs[1].shape == (3, 3)]
    assert len(biases) == 2
    assert biases[0] is biases[1]
    want = run_peer(model, feeds)["second"]
    np.testing.assert_allclose(run(graph, feeds)["second"], want, rtol=1e-5, atol=1e-6)


def test_names_are_those_of_the_model(read, rng) -> None:
    given = case("BiasGelu", "", [data(rng, 2, 3), Known(data(rng, 3))])
    graph = read(given.model)
    assert [node.name for node in graph.nodes] == ["the_node.sum", "the_node"]
    assert {source for node in graph.nodes for source in node.sources} == {"the_node"}


# -- forms without a kernel --------------------------------------------------------------------


def attend(query, key, value, heads):
    """Return attention by the book, in float64, of (batch, rows, heads * size)."""
    made = np.empty((*query.shape[:2], value.shape[2]))
    size, wide = query.shape[2] // heads, value.shape[2] // heads
    for b in range(query.shape[0]):
        for h in range(heads):
            q, k = (t[b, :, h * size : (h + 1) * size].astype(np.float64) for t in (query, key))
            powers = np.exp(q @ k.T / np.sqrt(size))
            weights = powers / powers.sum(axis=1, keepdims=True)
            made[b, :, h * wide : (h + 1) * wide] = weights @ value[b, :, h * wide : (h + 1) * wide]
    return made


def test_packed_keys_and_values(read, run, rng) -> None:
    query, both = data(rng, 2, 3, 8), data(rng, 2, 5, 2, 2, 4)
    given = case("MultiHeadAttention", "", [query, both], **TWO)
    key, value = (both[:, :, :, i].reshape(2, 5, 8) for i in (0, 1))
    found = run(read(given.model), given.feeds)["y0"]
    np.testing.assert_allclose(found, attend(query, key, value, 2), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("biased", [False, True])
def test_packed_queries_keys_and_values(read, run, rng, biased) -> None:
    packed, bias = data(rng, 2, 5, 2, 3, 4), data(rng, 24)
    more = [None, None, Known(bias)] if biased else []
    given = case("MultiHeadAttention", "", [packed, *more], **TWO)
    parts = [packed[:, :, :, i].reshape(2, 5, 8) for i in range(3)]
    if biased:
        parts = [t + bias[8 * i : 8 * i + 8] for i, t in enumerate(parts)]
    found = run(read(given.model), given.feeds)["y0"]
    np.testing.assert_allclose(found, attend(*parts, 2), rtol=1e-5, atol=1e-6)


def test_a_zero_point_that_is_left_out_is_0(read, run, rng) -> None:
    a, b = (rng.integers(-128, 128, (2, 3), np.int8) for _ in range(2))
    scale, zero = Known(np.array(0.05, F32)), Known(np.array(0, np.int8))
    without = case("QLinearAdd", "", [a, scale, None, b, scale, None, scale])
    with_it = case("QLinearAdd", "", [a, scale, zero, b, scale, zero, scale, zero])
    found = run(read(without.model), without.feeds)["y0"]
    assert found.dtype == np.int8
    np.testing.assert_array_equal(found, run_peer(with_it.model, with_it.feeds)["y0"])


def test_half_precision(read, run, rng) -> None:
    """Masks and scales are of the type that the scores have."""
    x, w, b = data(rng, 2, 3, 4), data(rng, 4, 12), data(rng, 12)
    mask = np.array([[1, 1, 0], [0, 1, 1]], np.int32)
    plain = case("Attention", "", [x, Known(w), Known(b), mask], unidirectional=1, **TWO)
    narrow = [t.astype(np.float16) for t in (x, w, b)]
    half = [narrow[0], Known(narrow[1]), Known(narrow[2]), mask]
    given = case("Attention", "", half, unidirectional=1, **TWO)
    found = run(read(given.model), given.feeds)["y0"]
    assert found.dtype == np.float16
    # 11 bits, through two products and a softmax
    np.testing.assert_allclose(found, run_peer(plain.model, plain.feeds)["y0"], rtol=0, atol=0.02)


# -- more operators of the domain --------------------------------------------------------------

MODULE = """
from dovetail_onnx import Importers

TABLE = Importers("com.microsoft")

@TABLE.importer("Inverse", versions=(1,))
@TABLE.importer("QuickGelu", versions=(1,))
def minus(op):
    return op.emit("ElementWiseNeg", [op.tensor(0)])
"""


@pytest.fixture
def extended(tmp_path, monkeypatch):
    """Install a dist that brings importers of the domain."""
    (tmp_path / "more_importers.py").write_text(MODULE)
    info = tmp_path / "more_importers-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: more-importers\nVersion: 1.0\n")
    entry = "onnx:com.microsoft = more_importers:TABLE"
    (info / "entry_points.txt").write_text(f"[dovetail.importers]\n{entry}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.refresh()
    yield
    sys.modules.pop("more_importers", None)
    monkeypatch.undo()
    plugins.refresh()


def test_a_third_party_may_add_operators_but_not_replace_them(read, rng, extended) -> None:
    assert kinds(read(case("Inverse", "", [data(rng, 2, 2)]).model)) == ["ElementWiseNeg"]
    assert "ElementWiseNeg" not in kinds(read(case("QuickGelu", "", [data(rng, 2, 2)]).model))


@pytest.mark.parametrize("packed", [False, True])
def test_one_row_after_a_past_without_a_buffer(read, evaluate, rng, packed) -> None:
    """ONNX Runtime's kernel for the CPU takes a past in a buffer only; by definition."""
    row, past = data(rng, 3, 2, 1, 8), data(rng, 2, 2, 2, 4, 4)
    given = [np.concatenate(row, 2), None, None] if packed else list(row)
    made = case(
        "DecoderMaskedMultiHeadAttention", "", [*given, None, None, *past], outputs=3, **TWO
    )
    found = evaluate(read(made.model), made.feeds)
    query, key, value = row.reshape(3, 2, 1, 2, 4).swapaxes(2, 3)
    key, value = (np.concatenate(p, 2) for p in ((past[0], key), (past[1], value)))
    scores = np.exp(query @ key.swapaxes(2, 3) / 2)
    wanted = (scores / scores.sum(-1, keepdims=True) @ value).swapaxes(1, 2).reshape(2, 1, 8)
    np.testing.assert_array_equal(found["y1"], key)
    np.testing.assert_array_equal(found["y2"], value)
    # sums of a few products in float32, in another order
    np.testing.assert_allclose(found["y0"], wanted, rtol=1e-5, atol=1e-6)
