"""Weights of two files: counts, reasons why they cannot be shared, similarity."""

from __future__ import annotations

import hashlib
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from dovetail.container import (
    Model,
    StoredContextGraph,
    compare_weights,
    cosine_similarity,
    differences,
    only_graph,
    read_weights,
)
from dovetail.errors import ConfigError, ContainerError
from dovetail.ir import (
    Array,
    AxisScaleOffset,
    Blob,
    DType,
    Encoding,
    EncodingMapping,
    Graph,
    Mapped,
    Node,
    ScaleOffset,
    Tensor,
    TensorKind,
    Vector,
    dequantize,
)

from .conftest import PRODUCER
from .test_context_files import content, stored, weights, write

U8, S8, F32 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8, DType.FLOAT_32
RAMP = np.arange(12).reshape(3, 4)


def model_of(graphs: Mapping[str, Mapping[str, Array]]) -> Model:
    found = {}
    for name, arrays in graphs.items():
        graph = found[name] = Graph(name)
        x = graph.add_tensor(Tensor("x", F32, (2,), TensorKind.APP_WRITE))
        y = graph.add_tensor(Tensor("y", F32, (2,), TensorKind.APP_READ))
        statics = [graph.add_tensor(Tensor.static(n, a)) for n, a in arrays.items()]
        graph.add_node(Node("n", "my.pkg", "Mix", [x, *statics], [y]))
    return Model(found, PRODUCER, {"my.pkg": "1"})


def saved(path: Path, **arrays: Array) -> Path:
    model_of({path.stem: arrays}).save(path)
    return path


def ramp(size: int, shift: float = 0) -> Array:
    return np.arange(size, dtype=np.float32) + np.float32(shift)


def test_the_counts_are_those_of_a_comparison_of_files(tmp_path: Path) -> None:
    a = saved(tmp_path / "a.dvt", same=ramp(9), other=ramp(5), alone=ramp(7), moved=ramp(8))
    b = saved(tmp_path / "b.dvt", same=ramp(9), other=ramp(5, 1), new=ramp(8))
    found = compare_weights(read_weights(a), read_weights(b))
    assert (found.same_names, found.identical, found.different) == (2, 1, 1)
    assert (found.unmatched_first, found.unmatched_second) == (("alone", "moved"), ("new",))
    assert not found.is_equal
    # `moved` has the content of `new`
    contents = found.contents
    assert (contents.first, contents.second, contents.common) == (4, 3, 2)
    assert (contents.common_bytes, contents.renamed) == (9 * 4 + 8 * 4, 1)
    (other,) = found.tensors
    assert (other.name, other.nbytes) == ("other", (20, 20))
    assert other.md5 == tuple(
        hashlib.md5(x.tobytes(), usedforsecurity=False).hexdigest() for x in (ramp(5), ramp(5, 1))
    )
    one, two = ramp(5).astype(float), ramp(5, 1).astype(float)
    assert other.cosine == pytest.approx(one @ two / np.sqrt(one @ one * (two @ two)), rel=1e-12)
    assert [d.fact for d in other.differences] == ["values"]


def test_names_of_the_converters_are_the_same_names(tmp_path: Path) -> None:
    own = {"fc.weight": ramp(4), "1": ramp(5), "a/b": ramp(6), "a.b": ramp(7), "c_d": ramp(8)}
    in_c = {"fc_weight": ramp(4), "_1": ramp(5, 1), "a_b": ramp(6), "c_d": ramp(8), "c.d": ramp(9)}
    paths = []
    for name, arrays in (("own", own), ("in_c", in_c)):
        paths.append(tmp_path / f"{name}.dvt")
        model_of({"net": arrays}).save(paths[-1])
    found = compare_weights(*map(read_weights, paths))
    assert (found.same_names, found.identical) == (3, 2)
    assert [each.name for each in found.tensors] == ["1"]
    # `a_b` can be each of two
    assert (found.unmatched_first, found.unmatched_second) == (("a/b", "a.b"), ("a_b", "c.d"))


def test_a_file_is_equal_to_itself_and_to_a_context_of_it(tmp_path: Path) -> None:
    path = write(tmp_path / "c.bin", content(stored("net", weights())))
    found = compare_weights(read_weights(path), read_weights(path))
    assert found.is_equal
    assert found.same_names == found.identical == 5  # axis, block, expanded, text, weights


def test_graphs_are_compared_by_name(tmp_path: Path) -> None:
    many = {"one": {"w": ramp(4)}, "two": {"w": ramp(4, 2)}}
    model_of(many).save(tmp_path / "m.dvt")
    read = read_weights(tmp_path / "m.dvt")
    single = read_weights(saved(tmp_path / "two.dvt", w=ramp(4, 2)))
    found = compare_weights(read, single)
    assert (found.identical, found.unmatched_first) == (1, ("one/w",))
    # the only graphs of both are compared whatever their names are
    one, two = (only_graph(read, name, "m.dvt") for name in ("one", "two"))
    assert compare_weights(one, two).different == 1
    assert compare_weights(two, single).is_equal
    with pytest.raises(ConfigError, match="graph 'tow' not found") as caught:
        only_graph(read, "tow", "m.dvt")
    assert "did you mean 'two'?" in caught.value.hint


def test_a_section_is_compared_with_its_base(tmp_path: Path) -> None:
    base = write(tmp_path / "c.bin", content(stored("net", weights())))
    changed = weights(1)
    graph = StoredContextGraph(name="net", plan=None, updated=(changed,))
    section = write(tmp_path / "s.bin", content(graph, blobs={}, is_section=True))
    found = compare_weights(read_weights(base), read_weights(section))
    assert (found.same_names, found.different, len(found.unmatched_first)) == (1, 1, 4)


def test_a_context_without_models_has_no_weights(tmp_path: Path) -> None:
    path = write(tmp_path / "c.bin", content(stored("net", weights(), model=False)))
    with pytest.raises(ContainerError, match="no model of graph net"):
        read_weights(path)


def test_damage_is_found_also_in_weights_without_a_counterpart(tmp_path: Path) -> None:
    a = saved(tmp_path / "a.dvt", w=np.full(30_000, 3, np.float32))
    b = saved(tmp_path / "b.dvt", v=ramp(2))
    raw = bytearray(a.read_bytes())
    raw[-100] ^= 1
    (tmp_path / "damaged.dvt").write_bytes(raw)
    damaged, intact = read_weights(tmp_path / "damaged.dvt"), read_weights(a)
    for other in (intact, read_weights(b)):
        with pytest.raises(ContainerError, match="damaged"):
            compare_weights(damaged, other)
        with pytest.raises(ContainerError, match="damaged"):
            compare_weights(other, read_weights(tmp_path / "damaged.dvt"))


def tensor(dtype: DType = U8, encoding: Encoding | None = None, values: Array = RAMP) -> Tensor:
    return Tensor.static("w", values, dtype, encoding=encoding)


CHANNELS = AxisScaleOffset(0, np.float32([1, 2, 3]))
NARROW = AxisScaleOffset(0, np.float32([1, 2, 3]), None, 4)
PAIRS: list[tuple[Tensor, Tensor, dict[str, tuple[str, str]]]] = [
    (tensor(U8, ScaleOffset(0.5, -8)), tensor(U8, ScaleOffset(0.5, -8)), {}),
    (tensor(U8, ScaleOffset(0.5)), tensor(U8, ScaleOffset(0.25)), {"scales": ("0.5", "0.25")}),
    (
        tensor(U8, ScaleOffset(0.5, -128)),
        tensor(U8, ScaleOffset(0.5, 0)),
        {"symmetry": ("yes", "no"), "offsets": ("-128", "0")},
    ),
    (
        tensor(S8, ScaleOffset(0.5)),
        tensor(S8, ScaleOffset(0.5, 0, 4)),
        {"bitwidth": ("8", "4")},
    ),
    (
        tensor(U8, ScaleOffset(0.5)),
        tensor(S8, ScaleOffset(0.5)),
        {"dtype": ("UFIXED_POINT_8", "SFIXED_POINT_8")},
    ),
    (tensor(DType.UINT_8), tensor(DType.UINT_8, values=RAMP.T.copy()), {"shape": ("3x4", "4x3")}),
    (tensor(S8, CHANNELS), tensor(S8, NARROW), {"bitwidth": ("8", "4")}),
    (
        tensor(S8, CHANNELS),
        tensor(S8, ScaleOffset(0.5)),
        {
            "encoding": ("AxisScaleOffset", "ScaleOffset"),
            "axis": ("0", "none"),
            "scales": (ANY, "0.5"),
        },
    ),
    (
        tensor(S8, NARROW),
        tensor(S8, Mapped(NARROW, EncodingMapping.ASYMMETRIC_PLUS_ONE)),
        {
            "encoding": ("AxisScaleOffset", "Mapped"),
            "mapping": ("none", "ASYMMETRIC_PLUS_ONE"),
        },
    ),
    (
        tensor(S8, Vector(NARROW, 3, 4, 2, 1, 6)),
        tensor(S8, Vector(NARROW, 3, 4, 2, 1, 7)),
        {"index_bitwidth": ("6", "7")},
    ),
]


@pytest.mark.parametrize(("first", "second", "wanted"), PAIRS)
def test_each_difference_is_named(
    first: Tensor, second: Tensor, wanted: dict[str, tuple[str, str]]
) -> None:
    found = {d.fact: (d.first, d.second) for d in differences(first, second)}
    found.pop("values", None)  # a transposed array has other bytes
    assert found == wanted


def test_axes_and_scales_of_channels_are_told_apart() -> None:
    other = AxisScaleOffset(1, np.float32([1, 2, 3, 4]))
    found = {d.fact: d for d in differences(tensor(S8, CHANNELS), tensor(S8, other))}
    assert found.keys() == {"axis", "scales"}
    assert str(found["axis"]) == "axis 0 / 1"
    close = AxisScaleOffset(0, np.float32([1, 2.5, 3]))  # the same limits
    (scales,) = differences(tensor(S8, CHANNELS), tensor(S8, close))
    assert scales.fact == "scales"
    assert scales.first != scales.second


FINITE = st.floats(-1e6, 1e6, width=32)


@given(st.integers(1, 300).flatmap(lambda n: npst.arrays("f4", (2, n), elements=FINITE)))
def test_the_cosine_is_that_of_numpy(pair: Any) -> None:
    one, two = pair.astype(np.float64)
    found = cosine_similarity(*(Tensor.static("w", row.copy()) for row in pair))
    lengths = np.sqrt(one @ one) * np.sqrt(two @ two)
    if lengths == 0:
        assert found == float(not one.any() and not two.any())
    else:
        # sums of at most 300 products in float64, in any order
        assert found == pytest.approx(one @ two / lengths, abs=1e-12)


def test_the_cosine_is_of_real_values() -> None:
    one, two = tensor(U8, ScaleOffset(0.5, -3)), tensor(S8, ScaleOffset(2.0))
    a, b = (dequantize(t.values(), t.encoding).ravel().astype(float) for t in (one, two))
    found = cosine_similarity(one, two)
    assert found == pytest.approx(a @ b / np.sqrt(a @ a * (b @ b)), rel=1e-12)


def test_without_numbers_there_is_no_cosine() -> None:
    text = Tensor.static("w", np.array(["a"]), DType.STRING)
    long, infinite = Tensor.static("w", ramp(9)), Tensor.static("w", np.float32([np.inf, 1]))
    coded = tensor(S8, Vector(NARROW, 3, 4, 2, 1, 6))
    short = Tensor("w", F32, (100,), TensorKind.STATIC, data=Blob(ramp(2)))  # of a hostile section
    pairs = ((text, text), (long, infinite), (infinite, infinite), (coded, coded), (short, short))
    assert [cosine_similarity(*pair) for pair in pairs] == [None] * 5


def test_memory_is_bounded_by_the_largest_tensor(tmp_path: Path) -> None:
    size = 1 << 18  # 16 tensors of 1 MiB
    for name, shift in (("a", 0), ("b", 1)):
        saved(tmp_path / f"{name}.dvt", **{f"w{i}": ramp(size, i + shift) for i in range(16)})
    read = [read_weights(tmp_path / f"{name}.dvt") for name in "ab"]
    tracemalloc.start()
    try:
        found = compare_weights(*read)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.different == 16
    # two pieces of 2 MiB as float64, and some room; all tensors are 32 MiB
    assert peak < 8 << 20
