"""Encodings files that decide: every kind of entry, fallback to float, what matches nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from quantizing import dense, encoding, model_of, new_graph, output, quantized

import dovetail as dt
from dovetail.api.quantization import quantize_with_report
from dovetail.errors import ConfigError, QuantizationError
from dovetail.ir import AxisScaleOffset, DType, Graph, ScaleOffset
from dovetail_opset.build import add, static

RNG = np.random.default_rng(5)
SAMPLES = RNG.standard_normal((4, 1, 2)).astype(np.float32)
FLOAT_16: dict[str, Any] = {"bitwidth": 16, "dtype": "float"}


def written(path: Path, activations: dict[str, Any], params: dict[str, Any]) -> str:
    """An old-style file; an entry may be one dict or a list of them."""
    listed = [
        {n: e if isinstance(e, list) else [e] for n, e in each.items()}
        for each in (activations, params)
    ]
    file = path / "given.encodings"
    file.write_text(json.dumps({"activation_encodings": listed[0], "param_encodings": listed[1]}))
    return str(file)


def entry(scale: float, offset: int, bitwidth: int = 8, symmetric: bool = False) -> dict[str, Any]:
    steps = (1 << bitwidth) - 1
    return {
        "bitwidth": bitwidth,
        "dtype": "int",
        "is_symmetric": str(symmetric),
        "scale": scale,
        "offset": offset,
        "min": offset * scale,
        "max": (offset + steps) * scale,
    }


def network() -> Graph:
    """x -> FullyConnected fc -> Relu y."""
    weight = np.array([[1, -0.5], [0.25, 0.5]], np.float32)
    return dense(weight, np.array([0.5, 0], np.float32))


def test_entries_count_instead_of_calibration(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {"x": entry(0.5, -10), "y": entry(0.25, 0, 16)},
        {"w": [entry(0.125, -128, symmetric=True), entry(0.25, -128, symmetric=True)]},
    )
    made = quantized(network(), SAMPLES, quantization_overrides=path, bias_bitwidth=32)
    assert encoding(made, "x") == ScaleOffset(0.5, -10)
    assert made.tensor("y").dtype is DType.UFIXED_POINT_16
    # what the Relu cuts off has no entry of its own, and shares
    assert encoding(made, "fc") == encoding(made, "y") == ScaleOffset(0.25, 0)
    weight, bias = made.tensor("w"), made.tensor("b")
    assert weight.encoding == AxisScaleOffset(0, np.array([0.125, 0.25], np.float32))
    np.testing.assert_array_equal(weight.stored(), [[8, -4], [1, 2]])
    assert bias.encoding == AxisScaleOffset(0, np.array([0.0625, 0.125], np.float32))


def test_an_entry_for_what_relu_cuts_off_is_kept(tmp_path: Path) -> None:
    path = written(tmp_path, {"fc": entry(0.5, -100)}, {})
    made = quantized(network(), SAMPLES, quantization_overrides=path)
    assert encoding(made, "fc") == ScaleOffset(0.5, -100)
    assert encoding(made, "y") != encoding(made, "fc")


def test_widths_alone(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {"y": {"bitwidth": 16, "dtype": "int"}},
        {"w": {"bitwidth": 4, "dtype": "int"}, "b": {"bitwidth": 32, "dtype": "int"}},
    )
    made = quantized(network(), SAMPLES, quantization_overrides=path)
    assert [made.tensor(n).dtype for n in ("x", "y", "b")] == [
        DType.UFIXED_POINT_8, DType.UFIXED_POINT_16, DType.SFIXED_POINT_32,
    ]  # fmt: skip
    assert encoding(made, "w").bitwidth == 4


@pytest.mark.parametrize("name", ["y", "w"])
def test_a_bitwidth_without_a_grid_is_named(tmp_path: Path, name: str) -> None:
    asked = {name: {"bitwidth": 32, "dtype": "int"}}
    path = written(tmp_path, *((asked, {}) if name == "y" else ({}, asked)))
    with pytest.raises((ConfigError, QuantizationError), match="bitwidth 32") as caught:
        quantized(network(), SAMPLES, quantization_overrides=path)
    assert f"tensor '{name}'" in str(caught.value)


def test_a_wide_bias_without_a_product_is_symmetric(tmp_path: Path) -> None:
    graph, x = new_graph((2, 3))
    gain = static(graph, "gain", np.ones(3, np.float32))
    beta = static(graph, "beta", np.array([-2, 1, 0], np.float32))
    output(add(graph, "LayerNorm", [x, gain, beta], name="y", axes=[1]))
    path = written(tmp_path, {}, {"beta": {"bitwidth": 32, "dtype": "int"}})
    made = quantized(graph, [np.ones((2, 3))], quantization_overrides=path)
    assert made.tensor("beta").dtype is DType.SFIXED_POINT_32
    # a float32 scale is rounded up where that is needed to reach the greatest value
    assert encoding(made, "beta").scale == pytest.approx(2 / (2**31 - 1), rel=1e-6)


def test_members_of_one_group_with_differing_entries_do_not_share(tmp_path: Path) -> None:
    graph, x = new_graph((2, 3))
    output(add(graph, "Transpose", [x], name="y", perm=[1, 0]))
    path = written(tmp_path, {"x": entry(0.5, 0), "y": entry(0.25, 0)}, {})
    made = quantized(graph, None, quantization_overrides=path)
    assert encoding(made, "x") == ScaleOffset(0.5)
    assert encoding(made, "y") == ScaleOffset(0.25)


def chain() -> Graph:
    """x -> a -> b -> c, each a FullyConnected of its own."""
    graph, made = new_graph((1, 2))
    for name in "abc":
        weight = static(graph, f"w{name}", RNG.standard_normal((2, 2)).astype(np.float32))
        bias = static(graph, f"b{name}", RNG.standard_normal(2).astype(np.float32))
        made = add(graph, "FullyConnected", [made, weight, bias], name=name)
    output(made)
    return graph


@pytest.mark.parametrize("said", ["output", "weight", "bias"])
def test_output_weight_and_bias_are_float_together(tmp_path: Path, said: str) -> None:
    activations = {"b": FLOAT_16} if said == "output" else {}
    params = {"wb": FLOAT_16} if said == "weight" else {"bb": FLOAT_16} if said == "bias" else {}
    path = written(tmp_path, activations, params)
    made = quantized(chain(), SAMPLES, quantization_overrides=path)
    assert [n.op_type for n in made.nodes] == [
        "FullyConnected", "Convert", "FullyConnected", "Convert", "FullyConnected",
    ]  # fmt: skip
    assert {made.tensor(n).dtype for n in ("b", "wb", "bb")} == {DType.FLOAT_16}
    assert {made.tensor(n).dtype for n in ("x", "a", "c", "wa", "wc")} == {DType.UFIXED_POINT_8}


def test_biases_that_stay_float_may_be_wider(tmp_path: Path) -> None:
    path = written(tmp_path, {"b": FLOAT_16}, {})
    made = quantized(chain(), SAMPLES, quantization_overrides=path, float_bias_bitwidth=32)
    assert made.tensor("wb").dtype is DType.FLOAT_16
    assert made.tensor("bb").dtype is DType.FLOAT_32


def test_mixed_precision_computes_what_the_float_network_does(tmp_path: Path) -> None:
    graph = chain()
    path = written(tmp_path, {"b": FLOAT_16}, {})
    mixed = dt.quantize(
        model_of(graph), SAMPLES, quantization_overrides=path, act_bitwidth=16, weights_bitwidth=16
    )
    with dt.Session(model_of(graph)) as one, dt.Session(mixed) as other:
        for sample in SAMPLES:
            exact, near = (s.run({"x": sample})["c"] for s in (one, other))
            # 11 bits of a half, 16 of all else, and biases of 8 bits within 4: 0.008
            np.testing.assert_allclose(near, exact, atol=0.03)


def test_a_float_input_is_converted(tmp_path: Path) -> None:
    path = written(tmp_path, {"x": FLOAT_16}, {})
    made = quantized(network(), SAMPLES, quantization_overrides=path)
    assert made.tensor("x").dtype is DType.FLOAT_16
    assert [n.op_type for n in made.nodes] == ["Convert", "FullyConnected", "Relu"]


def test_float_fallback(tmp_path: Path) -> None:
    given = {"x": entry(0.02, -128), "a": entry(0.05, -128), "c": entry(0.1, -128)}
    params = {f"w{n}": entry(0.02, -128, symmetric=True) for n in "abc"}
    path = written(tmp_path, given, params)
    made = quantize_with_report(
        model_of(chain()), None, quantization_overrides=path, float_fallback=True, bias_bitwidth=32
    )
    graph = made.model.graphs["net"]
    # b has no entry: what makes it and what reads it stay float
    assert graph.tensor("a").dtype is DType.UFIXED_POINT_8
    assert {graph.tensor(n).dtype for n in ("b", "c", "wb", "wc")} == {DType.FLOAT_32}
    assert encoding(graph, "ba").scale == np.float32(0.02 * np.float32(0.02))
    assert "'b'" in next(d.why for d in made.report.tensors["net"] if d.tensor == "b")
    assert set(made.report.uncovered["net"]) == {"ba", "b", "bb", "bc"}


def test_fallback_propagates_through_what_only_moves(tmp_path: Path) -> None:
    graph, x = new_graph((2, 3))
    moved = add(graph, "Transpose", [x], name="moved", perm=[1, 0])
    output(add(graph, "ElementWiseNeg", [moved], name="y"))
    path = written(tmp_path, {"x": entry(0.5, -4), "y": entry(0.5, -251)}, {})
    made = quantized(graph, None, quantization_overrides=path, float_fallback=True)
    assert encoding(made, "moved") == ScaleOffset(0.5, -4)
    assert [n.op_type for n in made.nodes] == ["Transpose", "ElementWiseNeg"]


def test_fallback_and_samples_exclude_each_other(tmp_path: Path) -> None:
    path = written(tmp_path, {"x": entry(0.5, 0)}, {})
    with pytest.raises(ConfigError, match="replaces calibration"):
        quantized(network(), SAMPLES, quantization_overrides=path, float_fallback=True)


def test_entries_for_what_conversion_does_away_with_are_noted(tmp_path: Path) -> None:
    path = written(tmp_path, {"x": entry(0.5, 0), "flat": entry(0.5, 0)}, {})
    graph = network()
    graph.removed_sources = frozenset(("flat", "y"))  # the last is there after all
    notes = quantize_with_report(model_of(graph), SAMPLES, quantization_overrides=path).report.notes
    assert [note for note in notes if "conversion" in note] == [
        "entries without effect, for tensors that conversion removes: 'flat'"
    ]
    graph.removed_sources = frozenset()
    with pytest.raises(QuantizationError, match="entry 'flat'"):
        quantized(graph, SAMPLES, quantization_overrides=path)


def test_entries_that_match_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, {"xx": entry(0.5, 0), "x": entry(0.5, 0)}, {"v": entry(0.5, 0)})
    with pytest.raises(QuantizationError) as caught:
        quantized(network(), SAMPLES, quantization_overrides=path)
    assert caught.value.code == "ENCODING_UNMATCHED"
    assert [p.where for p in caught.value.problems] == ["entry 'xx'", "entry 'v'"]
    assert "x" in caught.value.problems[0].hint
    made = quantize_with_report(
        model_of(network()), SAMPLES, quantization_overrides=path, lenient=True
    )
    assert encoding(made.model.graphs["net"], "x") == ScaleOffset(0.5)
    assert len(made.report.notes) == 2


def test_entries_that_do_not_fit_are_told_together(tmp_path: Path) -> None:
    three = [entry(0.5, -128, symmetric=True)] * 3
    path = written(tmp_path, {}, {"w": three, "b": three})
    with pytest.raises(QuantizationError) as caught:
        quantized(network(), SAMPLES, quantization_overrides=path)
    assert len(caught.value.problems) == 2


def test_all_in_half_precision() -> None:
    made = quantized(network(), None, float_bitwidth=16)
    assert {t.dtype for t in made.tensors.values()} == {DType.FLOAT_16}
    kept = quantized(network(), None, float_bitwidth=16, preserve_io_datatype=True)
    assert [n.op_type for n in kept.nodes] == ["Convert", "FullyConnected", "Relu", "Convert"]
    assert {t.dtype for t in (*kept.inputs, *kept.outputs)} == {DType.FLOAT_32}


def test_many_entries_that_match_nothing_are_one_note(tmp_path: Path) -> None:
    """A file for the training graph may have hundreds that conversion knows nothing of."""
    path = written(tmp_path, {f"bn{i}": entry(0.5, 0) for i in range(30)}, {})
    made = quantize_with_report(
        model_of(network()), SAMPLES, quantization_overrides=path, lenient=True
    )
    (note,) = (note for note in made.report.notes if "bn0" in note)
    assert note.startswith("30 of 30 entries match no tensor of the model: 'bn0', 'bn1', ")
    assert note.endswith("and 22 more")
