"""What only a Softmax reads is cut far below the greatest of its row; large masks cost nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from quantizing import encoding, model_of, new_graph, output, quantized

import dovetail as dt
from dovetail.api.quantization import quantize_with_report
from dovetail.errors import QuantizationError
from dovetail.ir import Array, DType, Graph, Spec, Tensor, TensorKind
from dovetail_opset.build import add, add_all, static

RNG = np.random.default_rng(12)
SAMPLES = RNG.uniform(-2, 3, (6, 4, 8)).astype(np.float32)
# From where on a Softmax makes 1e-7 of the greatest, and a grid's end for that much rounding.
DEPTH, STEP = 16.0, 0.2


def graph_of(*, mask: Array | None = None) -> tuple[Graph, Tensor]:
    """x + mask, which nothing reads as yet."""
    graph, x = new_graph((4, 8))
    if mask is None:
        mask = np.where(np.arange(8) > 4, np.float32(-1e4), np.float32(0))
    return graph, add(graph, "ElementWiseAdd", [x, static(graph, "mask", mask)], name="total")


def minimum(graph: Graph, name: str) -> float:
    """The lower end of a tensor's grid."""
    found = encoding(graph, name)
    return float(found.offset * found.scale)


@pytest.mark.parametrize("number", [-50.0, -1e4, -65504.0, -1e9, -3.4e38])
def test_a_mask_costs_the_sum_nothing(number: float) -> None:
    mask = np.where(np.arange(8) > 4, number, 0).astype(np.float32)
    graph, total = graph_of(mask=mask)
    output(add(graph, "Softmax", [total], name="y"))
    made = quantized(graph, list(SAMPLES))
    lowest = float((SAMPLES[..., :5].max(axis=-1) - DEPTH).min())
    assert minimum(made, "total") == pytest.approx(lowest, abs=STEP)
    # far enough to bring whatever is masked there, and no farther than the number itself
    assert max(number, -50) - STEP <= minimum(made, "mask") <= lowest


@pytest.mark.parametrize("estimator", ["min-max", "mse", "percentile"])
def test_rows_that_are_masked_as_a_whole_do_not_count(estimator: str) -> None:
    mask = np.zeros((4, 8), np.float32)
    mask[1], mask[2, 3:] = -1e4, -1e4
    graph, total = graph_of(mask=mask)
    output(add(graph, "Softmax", [total], name="y"))
    made = quantized(graph, list(SAMPLES), act_quantizer_calibration=estimator)
    assert -DEPTH - 2 - STEP <= minimum(made, "total") < -10


def test_scores_without_a_mask_are_cut_where_it_makes_no_difference() -> None:
    graph, x = new_graph((4, 8))
    scores = add(graph, "ElementWiseAbs", [x], name="scores")
    output(add(graph, "Softmax", [scores], name="y"))
    samples = SAMPLES.copy()
    samples[..., 0] = 90
    made = quantized(graph, list(samples))
    # 0 is on every grid; all else that counts is 90 - 16 or more
    assert minimum(made, "scores") == 0
    report = quantize_with_report(model_of(graph), list(samples)).report
    (line,) = (d for d in report.tensors[graph.name] if d.tensor == "scores")
    assert line.observed == pytest.approx((90 - DEPTH, 90))
    assert "Softmax" in line.why


def test_what_is_divided_before_the_softmax_needs_more_room() -> None:
    graph, total = graph_of()
    four = static(graph, "four", np.full(1, 4, np.float32))
    small = add(graph, "ElementWiseDivide", [total, four], name="small")
    output(add(graph, "Softmax", [small], name="y"))
    made = quantized(graph, list(SAMPLES))
    lowest = SAMPLES[..., :5].max(axis=-1).min()
    assert minimum(made, "total") == pytest.approx(lowest - 4 * DEPTH, abs=4 * STEP)
    assert minimum(made, "small") == pytest.approx(lowest / 4 - DEPTH, abs=STEP)


def test_masks_may_be_added_one_after_the_other_and_clipped() -> None:
    graph, total = graph_of()
    padding = static(graph, "padding", np.where(np.arange(8) == 0, -3e38, 0).astype(np.float32))
    both = add(graph, "ElementWiseAdd", [total, padding], name="both")
    number = static(graph, "number", np.full(1, -3.4e38, np.float32))
    kept = add(graph, "ElementWiseMaximum", [both, number], name="kept")
    output(add(graph, "Softmax", [kept], name="y"))
    made = quantized(graph, list(SAMPLES))
    lowest = float(SAMPLES[..., 1:5].max(axis=-1).min()) - DEPTH
    assert minimum(made, "both") == pytest.approx(lowest, abs=STEP)
    assert -60 < minimum(made, "total") < lowest
    with dt.Session(model_of(made)) as session:
        found = session.run({"x": SAMPLES[0]})["y"]
    assert (found[:, [0, 5, 6, 7]] == 0).all()
    assert (found[:, 1:5].sum(axis=1) > 0.98).all()  # 8-bit steps of 4 shares


def test_a_mask_of_large_numbers_may_be_cast_to_bools() -> None:
    """As MPT does with the mask that the exporter gives it."""
    graph, x = new_graph((4, 8))
    zero = static(graph, "zero", np.zeros((), np.float32))
    shown = add(graph, "ElementWiseGreater", [x, zero], name="shown")
    lowest = static(graph, "lowest", np.full((), -3.4e38, np.float32))
    mask = add(graph, "ElementWiseSelect", [shown, zero, lowest], name="mask")
    hidden = add(graph, "Cast", [mask], name="hidden", spec=Spec(DType.BOOL_8, (4, 8)))
    output(add(graph, "ElementWiseSelect", [hidden, zero, x], name="y"))
    made = quantized(graph, list(SAMPLES))
    with dt.Session(model_of(made), backend="htp") as session:
        found = session.run({"x": SAMPLES[0]})["y"]
    step = 5 / 255  # of 8 bits over the samples
    np.testing.assert_allclose(found, np.maximum(SAMPLES[0], 0), atol=step)


def test_clipped_scores_may_be_reshaped() -> None:
    """As OPT and XGLM limit the sum before heads and batch become one axis."""
    graph, total = graph_of(mask=np.where(np.arange(8) > 4, np.float32(-3.4e38), np.float32(0)))
    lowest = static(graph, "lowest", np.full((), -3.4e38, np.float32))
    clipped = add(graph, "ElementWiseMaximum", [total, lowest], name="clipped")
    spec = Spec(DType.FLOAT_32, (2, 2, 8))
    moved = add(graph, "Reshape", [clipped], name="moved", spec=spec)
    output(add(graph, "Softmax", [moved], name="y"))
    made = quantized(graph, list(SAMPLES))
    floor = float((SAMPLES[..., :5].max(axis=-1) - DEPTH).min())
    assert minimum(made, "total") == pytest.approx(floor, abs=STEP)
    assert minimum(made, "moved") == pytest.approx(floor, abs=STEP)


def test_what_shares_its_grid_with_a_multiple_of_it() -> None:
    graph, x = new_graph((4, 8))
    scores = add(graph, "ElementWiseAbs", [x], name="scores")
    half = static(graph, "half", np.full((), 0.5, np.float32))
    halves = add(graph, "ElementWiseMultiply", [scores, half], name="halves")
    both = add(graph, "Concat", [scores, halves], name="both", axis=1)
    output(add(graph, "Softmax", [both], name="y"))
    made = quantized(graph, list(SAMPLES))
    found = {encoding(made, name) for name in ("scores", "halves", "both")}
    assert len(found) == 1
    (grid,) = found
    assert grid.scale * 255 == pytest.approx(np.abs(SAMPLES).max(), rel=0.01)


@pytest.mark.parametrize("other", ["output", "reader", "log", "option"])
def test_what_others_read_too_keeps_its_range(other: str) -> None:
    graph, total = graph_of()
    if other == "output":
        output(total)
    if other == "reader":
        output(add(graph, "ElementWiseAbs", [total], name="seen"))
    if other == "log":
        output(add(graph, "LogSoftmax", [total], name="seen", axis=1))
    output(add(graph, "Softmax", [total], name="y"))
    options = {"disable_relu_squashing": True} if other == "option" else {}
    assert minimum(quantized(graph, list(SAMPLES), **options), "total") < -9000


@pytest.mark.parametrize("number", [-3.4e38, -np.inf])
def test_an_input_may_be_the_mask(number: float, tmp_path: Path) -> None:
    graph, x = new_graph((1, 3))
    mask = graph.add_tensor(Tensor("mask", x.dtype, (1, 3), TensorKind.APP_WRITE))
    output(add(graph, "Softmax", [add(graph, "ElementWiseAdd", [x, mask], name="total")], name="y"))
    sample = {"x": np.array([[3.0, 1, 1]]), "mask": np.array([[number, 0, 0]])}
    kept = tmp_path / "ranges.json"
    for _ in range(2):  # the second time from the cache
        made = quantize_with_report(model_of(graph), [sample], calibration_cache=kept)
        with dt.Session(made.model) as session:
            given = {name: values.astype(np.float32) for name, values in sample.items()}
            np.testing.assert_allclose(session.run(given)["y"], [[0, 0.5, 0.5]], atol=1 / 255)
    assert any("no sample was run" in note for note in made.report.notes)
    with pytest.raises(QuantizationError, match="NaN"):
        quantize_with_report(model_of(graph), [sample | {"mask": np.array([[np.nan, 0, 0]])}])


def test_rows_that_a_mask_hides_may_be_asked_for() -> None:
    """As the function of ONNX's Attention does, whose rows are then 0."""
    graph, x = new_graph((4, 8))
    mask = graph.add_tensor(Tensor("mask", x.dtype, (4, 8), TensorKind.APP_WRITE))
    total = add(graph, "ElementWiseAdd", [x, mask], name="total")
    shares = add(graph, "Softmax", [total], name="shares")
    axes = np.array([1], np.uint32)
    most = add(graph, "ReduceMax", [mask], name="most", axes=axes, keep_dims=True)
    nothing = static(graph, "nothing", np.full(1, -np.inf, np.float32))
    is_hidden = add(graph, "ElementWiseEqual", [most, nothing], name="is_hidden")
    zero = static(graph, "zero", np.zeros(1, np.float32))
    output(add(graph, "ElementWiseSelect", [is_hidden, zero, shares], name="y"))
    hidden = np.arange(8) > np.array([[4], [5], [6], [-1]])  # the last row as a whole
    masks = np.where(hidden, -np.inf, 0).astype(np.float32)
    samples = [{"x": each, "mask": masks} for each in SAMPLES]
    made = dt.quantize(model_of(graph), samples, act_bitwidth=16)
    with dt.Session(model_of(graph)) as exact, dt.Session(made) as near:
        for sample in samples:
            wanted, found = (each.run(sample)["y"] for each in (exact, near))
            np.testing.assert_allclose(found, wanted, atol=1e-3)
            assert (found[3] == 0).all()


@pytest.mark.parametrize("bits", [8, 16])
def test_shares_are_not_asked_for_nan(bits: int) -> None:
    """As PyTorch exports an attention: NaN of rows that a mask hides becomes 0."""
    graph, total = graph_of()
    shares = add(graph, "Softmax", [total], name="shares")
    is_nan = add(graph, "IsNan", [shares], name="is_nan")
    zero = static(graph, "zero", np.zeros((), np.float32))
    kept = add(graph, "ElementWiseSelect", [is_nan, zero, shares], name="kept")
    weights = static(graph, "weights", RNG.uniform(-1, 1, (8, 5)).astype(np.float32))
    output(add(graph, "MatMul", [kept, weights], name="y"))
    made = dt.quantize(model_of(graph), list(SAMPLES), act_bitwidth=bits)
    (found,) = made.graphs.values()
    assert [node.op_type for node in found.nodes] == ["ElementWiseAdd", "Softmax", "MatMul"]
    with dt.Session(model_of(graph)) as exact, dt.Session(made) as near:
        for sample in SAMPLES:
            wanted, got = (each.run({"x": sample})["y"] for each in (exact, near))
            # weights have 8 bits in both cases
            np.testing.assert_allclose(got, wanted, atol=0.03 if bits == 8 else 0.005)


@pytest.mark.parametrize("number", [-1e9, -3.4e38])
def test_two_masks_may_be_joined(number: float) -> None:
    """As Llama does: elements that padding alone hides have the sum 0, which is asked for."""
    graph, x = new_graph((4, 8))
    padding = graph.add_tensor(Tensor("padding", x.dtype, (1, 8), TensorKind.APP_WRITE))
    far = graph.add_tensor(Tensor("far", x.dtype, (4, 8), TensorKind.APP_WRITE))  # 1 is hidden
    lowest = static(graph, "lowest", np.full((), number, np.float32))
    zero = static(graph, "zero", np.zeros((), np.float32))
    causal = add(graph, "ElementWiseMultiply", [far, lowest], name="causal")
    both = add(graph, "ElementWiseAdd", [causal, padding], name="both")
    is_hidden = add(graph, "ElementWiseEqual", [both, zero], name="is_hidden")
    mask = add(graph, "ElementWiseSelect", [is_hidden, lowest, causal], name="mask")
    total = add(graph, "ElementWiseAdd", [x, mask], name="total")
    output(add(graph, "Softmax", [total], name="y"))
    given = {
        "padding": (np.arange(8) > 1)[None].astype(np.float32),
        "far": np.triu(np.ones((4, 8), np.float32), 4),
    }
    samples = [{"x": each, **given} for each in SAMPLES]
    made = dt.quantize(model_of(graph), samples)
    (found,) = made.graphs.values()
    assert minimum(found, "total") > -20
    with dt.Session(model_of(graph)) as exact, dt.Session(made) as near:
        for sample in samples:
            wanted, got = (each.run(sample)["y"] for each in (exact, near))
            np.testing.assert_allclose(got, wanted, atol=0.02)
            assert (got[wanted == 0] == 0).all()


@pytest.mark.parametrize("number", [-1e4, -3.4e38, -np.inf])
def test_scores_may_be_replaced_by_one_mask_after_the_other(number: float) -> None:
    graph, x = new_graph((4, 8))
    lowest = static(graph, "lowest", np.full((), number, np.float32))
    zero = static(graph, "zero", np.zeros((), np.float32))
    late = static(graph, "late", np.arange(8) > 5)
    is_low = add(graph, "ElementWiseLess", [x, zero], name="is_low")
    once = add(graph, "ElementWiseSelect", [is_low, lowest, x], name="once")
    twice = add(graph, "ElementWiseSelect", [late, lowest, once], name="twice")
    output(add(graph, "Softmax", [twice], name="y"))
    made = dt.quantize(model_of(graph), list(SAMPLES))
    (found,) = made.graphs.values()
    assert minimum(found, "twice") > -20
    assert minimum(found, "once") > -40
    with dt.Session(model_of(graph)) as exact, dt.Session(made) as near:
        for sample in SAMPLES:
            wanted, got = (each.run({"x": sample})["y"] for each in (exact, near))
            np.testing.assert_allclose(got, wanted, atol=0.06)  # a step of the scores is 0.1
            assert (got[wanted == 0] == 0).all()


def test_a_constant_mask_beside_quantized_masks_is_a_finite_number(tmp_path: Path) -> None:
    """The ranges that are given for both masks add up to no float32."""
    graph, x = new_graph((4, 8))
    mask = graph.add_tensor(Tensor("mask", x.dtype, (4, 8), TensorKind.APP_WRITE))
    lowest = static(graph, "lowest", np.where(np.arange(8) > 4, np.float32(-3.4e38), np.float32(0)))
    masks = add(graph, "ElementWiseAdd", [mask, lowest], name="masks")
    total = add(graph, "ElementWiseAdd", [x, masks], name="total")
    output(add(graph, "Softmax", [total], name="y"))
    path = tmp_path / "given.json"
    entry = {"bitwidth": 8, "min": -3.4e38, "max": 0.0, "is_symmetric": "False"}
    entries = {"mask": [entry], "masks": [entry]}
    path.write_text(json.dumps({"activation_encodings": entries, "param_encodings": {}}))
    samples = [{"x": each, "mask": np.zeros((4, 8), np.float32)} for each in SAMPLES]
    made = dt.quantize(model_of(graph), samples, quantization_overrides=path)
    (found,) = made.graphs.values()
    assert np.isfinite(minimum(found, "lowest"))


def test_a_sum_may_share_the_grid_of_its_operands() -> None:
    """As two paths of a YOLO do, whose sum is joined with what it adds."""
    graph, x = new_graph((4, 8))
    part = add(graph, "ElementWiseAbs", [x], name="part")
    total = add(graph, "ElementWiseAdd", [part, part], name="total")
    both = add(graph, "Concat", [part, total], name="both", axis=1)
    output(add(graph, "Cast", [both], name="y", spec=Spec(DType.BOOL_8, (4, 16))))
    made = quantized(graph, list(SAMPLES))
    found = {encoding(made, name) for name in ("part", "total", "both")}
    assert len(found) == 1


@pytest.mark.parametrize("order", [1, -1])  # of the tensors: a file may have any
@pytest.mark.parametrize("op_type", ["ElementWiseAdd", "ElementWiseMultiply"])
def test_chains_may_be_long(op_type: str, order: int) -> None:
    graph, x = new_graph((4, 8))
    one = static(graph, "one", np.ones((), np.float32))
    links = [Tensor(f"t{i}", DType.FLOAT_32, (4, 8)) for i in range(1200)]
    for link in links[::order]:
        graph.add_tensor(link)
    for link in links:  # more than Python's limit of nested calls
        x = add(graph, op_type, [x, one], name=f"{link.name}.node", outputs=link)
    output(add(graph, "Softmax", [x], name="y"))
    made = quantized(graph, list(SAMPLES))
    assert encoding(made, "t1199").scale > 0


@pytest.mark.parametrize("is_added", [False, True])
@pytest.mark.parametrize("number", [-1e4, -3.4e38, -np.inf])
def test_one_part_of_the_scores_may_be_masked(number: float, is_added: bool) -> None:
    """As Longformer does: the parts and the scores share one grid, and a mask may follow."""
    graph, x = new_graph((4, 8))
    scores = add(graph, "ElementWiseAbs", [x], name="scores")
    at = np.array([2], np.uint32)
    parts = add_all(graph, "Split", [scores], name="split", axis=0, split_index=at)
    lowest = static(graph, "lowest", np.full((), number, np.float32))
    hidden = static(graph, "hidden", np.arange(8) > 4)
    masked = add(graph, "ElementWiseSelect", [hidden, lowest, parts[0]], name="masked")
    both = add(graph, "Concat", [masked, parts[1]], name="both", axis=0)
    if is_added:
        bias = static(graph, "bias", np.where(np.arange(8) == 0, lowest.values(), 0))
        both = add(graph, "ElementWiseAdd", [both, bias], name="total")
    output(add(graph, "Softmax", [both], name="y"))
    _agrees(graph, 30)
    assert minimum(quantized(graph, list(SAMPLES)), "masked") > -60


@pytest.mark.parametrize("number", [-1e4, -3.4e38, -np.inf])
@pytest.mark.parametrize("op_type", ["ElementWiseMultiply", "ElementWiseDivide"])
def test_a_mask_may_be_scaled(op_type: str, number: float) -> None:
    """As PyTorch's older exporter does with the mask of a scaled_dot_product_attention."""
    graph, x = new_graph((4, 8))
    zero = static(graph, "zero", np.zeros((), np.float32))
    lowest = static(graph, "lowest", np.full((), number, np.float32))
    is_low = add(graph, "ElementWiseLess", [x, zero], name="is_low")
    mask = add(graph, "ElementWiseSelect", [is_low, lowest, zero], name="mask")
    one = static(graph, "one", np.ones((), np.float32))
    scaled = add(graph, op_type, [mask, one], name="scaled")
    total = add(graph, "ElementWiseAdd", [x, scaled], name="total")
    output(add(graph, "Softmax", [total], name="y"))
    _agrees(graph, 25)
    assert minimum(quantized(graph, list(SAMPLES)), "mask") > -60


@pytest.mark.parametrize("number", [-1e4, -3.4e38, -np.inf])
def test_exponents_may_be_masked(number: float) -> None:
    """As Mamba2 does with sums of its logarithmic decays."""
    graph, x = new_graph((4, 8))
    lowest = static(graph, "lowest", np.full((), number, np.float32))
    hidden = static(graph, "hidden", np.arange(8) > np.arange(4)[:, None])
    masked = add(graph, "ElementWiseSelect", [hidden, lowest, x], name="masked")
    output(add(graph, "ElementWiseExp", [masked], name="y"))
    _agrees(graph, 30)
    made = quantized(graph, list(SAMPLES))
    visible = SAMPLES[:, np.arange(8) <= np.arange(4)[:, None]]
    lowest_maximum = float(visible.max(axis=1).min())  # of the samples
    assert minimum(made, "masked") == pytest.approx(lowest_maximum - DEPTH, abs=STEP)


@pytest.mark.parametrize("number", [-1e4, -1e38, -np.inf])
def test_exponents_may_be_masked_as_a_whole(number: float) -> None:
    """As RWKV does with the state before the first token."""
    graph, x = new_graph((4, 8))
    lowest = static(graph, "lowest", np.full((4, 8), number, np.float32))
    masked = add(graph, "ElementWiseSubtract", [lowest, x], name="masked")
    power = add(graph, "ElementWiseExp", [masked], name="power")
    output(add(graph, "ElementWiseAdd", [power, x], name="y"))
    _agrees(graph, 30)


@pytest.mark.parametrize(
    ("op_type", "number"),
    [("Sigmoid", -1e4), ("Sigmoid", -3.4e38), ("Sigmoid", -np.inf), ("Gelu", -3.4e38)],
)
def test_what_is_flat_there_may_be_masked(op_type: str, number: float) -> None:
    graph, x = new_graph((4, 8))
    lowest = static(graph, "lowest", np.full((), number, np.float32))
    hidden = static(graph, "hidden", np.arange(8) > 4)
    masked = add(graph, "ElementWiseSelect", [hidden, lowest, x], name="masked")
    output(add(graph, op_type, [masked], name="y"))
    _agrees(graph, 30)


@pytest.mark.parametrize("number", [-1e4, -3.4e38, -np.inf])
def test_a_softmax_may_be_written_out(number: float) -> None:
    """As JAX exports it; its maxima share the grid of the scores."""
    graph, x = new_graph((4, 8))
    lowest = static(graph, "lowest", np.full((), number, np.float32))
    hidden = static(graph, "hidden", np.arange(8) > 4)
    masked = add(graph, "ElementWiseSelect", [hidden, lowest, x], name="masked")
    rows = {"axes": np.array([1], np.uint32), "keep_dims": True}
    most = add(graph, "ReduceMax", [masked], name="most", **rows)
    lowered = add(graph, "ElementWiseSubtract", [masked, most], name="lowered")
    powers = add(graph, "ElementWiseExp", [lowered], name="powers")
    total = add(graph, "ReduceSum", [powers], name="total", **rows)
    output(add(graph, "ElementWiseDivide", [powers, total], name="y"))
    _agrees(graph, 25)


@pytest.mark.parametrize("number", [-1e9, -3.4e38, -np.inf])
@pytest.mark.parametrize("way", ["maxima", "indices", "logarithm"])
def test_only_maxima_of_masked_rows_may_be_read(way: str, number: float) -> None:
    """As pooling over tokens, the choice of a token, and a written-out LogSumExp do."""
    graph, x = new_graph((4, 8))
    lowest = static(graph, "lowest", np.full((), number, np.float32))
    hidden = static(graph, "hidden", np.arange(8) > 4)
    masked = add(graph, "ElementWiseSelect", [hidden, lowest, x], name="masked")
    rows = {"axes": np.array([1], np.uint32), "keep_dims": True}
    if way == "indices":
        output(add(graph, "Argmax", [masked], name="y", axis=1, keep_dims=True))
    else:
        name = "y" if way == "maxima" else "most"
        most = add(graph, "ReduceMax", [masked], name=name, **rows)
        if way == "maxima":
            output(most)
        else:
            lowered = add(graph, "ElementWiseSubtract", [masked, most], name="lowered")
            powers = add(graph, "ElementWiseExp", [lowered], name="powers")
            total = add(graph, "ReduceSum", [powers], name="total", **rows)
            logarithm = add(graph, "ElementWiseLog", [total], name="logarithm")
            output(add(graph, "ElementWiseAdd", [logarithm, most], name="y"))
    assert minimum(quantized(graph, list(SAMPLES)), "masked") > -40
    if way != "indices":
        _agrees(graph, 30)
        return
    made = dt.quantize(model_of(graph), list(SAMPLES), act_bitwidth=16)
    with dt.Session(model_of(graph)) as exact, dt.Session(made) as near:
        for sample in SAMPLES:
            wanted, got = (each.run({"x": sample})["y"] for each in (exact, near))
            np.testing.assert_array_equal(got, wanted)


def test_scores_of_any_size_count_for_their_maxima() -> None:
    """Negated squares of distances, of which the index of the smallest is read."""
    graph, x = new_graph((4, 8))
    far = static(graph, "far", np.full((), -1e4, np.float32))
    scores = add(graph, "ElementWiseAdd", [x, far], name="scores")
    output(add(graph, "Argmax", [scores], name="y", axis=1, keep_dims=True))
    assert minimum(quantized(graph, list(SAMPLES)), "scores") < -9000


def _agrees(graph: Graph, at_least_db: float) -> None:
    """Raise if the quantized graph on htp is farther from the float graph, with 16 bits by 40."""
    for bits, least in ((8, at_least_db), (16, at_least_db + 40)):
        made = dt.quantize(model_of(graph), list(SAMPLES), act_bitwidth=bits)
        with dt.Session(model_of(graph)) as exact, dt.Session(made, backend="htp") as near:
            wanted, got = (
                np.stack([each.run({"x": sample})["y"] for sample in SAMPLES])
                for each in (exact, near)
            )
        assert np.isfinite(got).all()
        assert 10 * np.log10((wanted**2).sum() / ((wanted - got) ** 2).sum()) > least
        assert np.abs(got[wanted == 0]).max(initial=0) == 0
