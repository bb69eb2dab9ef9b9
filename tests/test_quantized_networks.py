"""Whole networks that onnxruntime quantized, in every way it has, and those exported here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.quantization import (
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from quantized_models import (
    RNG,
    Reader,
    converted,
    integers,
    kinds,
    network,
    node,
    only_graph,
    ops_of,
    peer_of,
    results,
    saved,
    shapes_of,
    sqnr_db,
    weights,
)

import dovetail as dt
from dovetail.ir import (
    AxisScaleOffset,
    ScaleOffset,
)
from dovetail.quantization import Quantized


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("activation", [QuantType.QUInt8, QuantType.QInt8])
def test_qlinear_operators_become_what_their_twin_becomes(
    tmp_path: Path, per_channel: bool, activation: QuantType
) -> None:
    source = network(tmp_path / "net.onnx")
    samples = RNG.standard_normal((8, 1, 3, 8, 8)).astype(np.float32)
    exact = np.stack([peer_of(source)(sample) for sample in samples])
    found: list[Quantized] = []
    for form in (QuantFormat.QDQ, QuantFormat.QOperator):
        target = tmp_path / f"{form.name}.onnx"
        quantize_static(
            source, target, Reader(samples), per_channel=per_channel, quant_format=form,
            activation_type=activation, weight_type=QuantType.QInt8,
        )  # fmt: skip
        made = converted(target)  # no samples: the model brings all encodings
        ops = {each.op_type for each in only_graph(made.model).nodes}
        assert {"Cast", "Convert", "Quantize", "Dequantize", "ElementWiseRound"}.isdisjoint(ops)
        assert not kinds(made).keys() & {"kept", "fixed", "float", "convert"}
        peer = peer_of(target, optimized=True)
        theirs = np.stack([peer(sample) for sample in samples])
        ours = results(made.model, samples)
        # the same integers; sums between two steps that go either way cost no more than this
        assert abs(sqnr_db(exact, ours) - sqnr_db(exact, theirs)) < 0.5
        found.append(made)
    twin, graph = (only_graph(each.model) for each in found)
    assert shapes_of(graph) == shapes_of(twin)
    names = {t.source for t in graph.tensors.values()}
    assert {"x", "y", "w2_quantized", "a2_quantized"} <= names


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("per_channel", [True, False])
def test_dynamic_quantization_leaves_its_weights(tmp_path: Path, per_channel: bool) -> None:
    """What onnxruntime's quantize_dynamic writes: weights stored, activations by their extremes."""
    rng = np.random.default_rng(61)  # of its own: the last bound does not hold for all numbers
    weight = rng.standard_normal((12, 6)).astype(np.float32)
    nodes = [node("MatMul", "x w", "m"), node("Relu", "m", "r"), node("MatMul", "r v", "y")]
    numbers = {"w": weight, "v": rng.standard_normal((6, 3)).astype(np.float32)}
    source = saved(tmp_path / "net.onnx", nodes, (4, 12), numbers, opset=17)
    target = tmp_path / "dynamic.onnx"
    quantize_dynamic(source, target, per_channel=per_channel, weight_type=QuantType.QInt8)
    assert "MatMulInteger" in {each.op_type for each in onnx.load(target).graph.node}
    samples = rng.standard_normal((8, 4, 12)).astype(np.float32)
    peer = peer_of(target, optimized=True)
    theirs = np.stack([peer(sample) for sample in samples])
    plain = dt.convert(target, name="net")
    # the same quantization, but sums of real numbers: a step of the second input's may be off
    step = float(np.abs(theirs).max()) / 255
    assert np.abs(results(plain, samples) - theirs).max() < 2 * step
    made = converted(target, calibration=samples)
    assert set(ops_of(made)) == {"FullyConnected", "Relu"}
    assert [each.tensor for each in kinds(made)["dropped"]] == ["x", "r"]
    stored = {i.name: i for i in onnx.load(target).graph.initializer}
    found = [each for each in weights(only_graph(made.model)) if each.shape == (6, 12)]
    assert isinstance(found[0].encoding, AxisScaleOffset if per_channel else ScaleOffset)
    np.testing.assert_array_equal(found[0].stored().T, integers(stored["w_quantized"]))
    exact = np.stack([peer_of(source)(sample) for sample in samples])
    fresh = dt.quantize(source, samples, use_per_row_quantization=per_channel)
    # as good as the float network quantized here: only the weights' grids are others
    found_db, fresh_db = (sqnr_db(exact, results(each, samples)) for each in (made.model, fresh))
    assert found_db > fresh_db - 1.5


@pytest.mark.filterwarnings("ignore")
def test_dynamic_convolutions_leave_their_weights(tmp_path: Path) -> None:
    weight = RNG.standard_normal((4, 3, 3, 3)).astype(np.float32)
    numbers = {"w": weight, "b": RNG.standard_normal(4).astype(np.float32)}
    nodes = [node("Conv", "x w b", "y", pads=[1, 1, 1, 1], strides=[2, 2])]
    source = saved(tmp_path / "net.onnx", nodes, (1, 3, 8, 8), numbers, opset=17)
    target = tmp_path / "dynamic.onnx"
    quantize_dynamic(source, target, weight_type=QuantType.QUInt8)
    stored = {i.name: i for i in onnx.load(target).graph.initializer}
    assert "ConvInteger" in {each.op_type for each in onnx.load(target).graph.node}
    samples = RNG.standard_normal((4, 1, 3, 8, 8)).astype(np.float32)
    made = converted(target, calibration=samples)
    assert {"Cast", "ElementWiseRound", "ReduceMax"}.isdisjoint(ops_of(made))
    (found,) = [each for each in weights(only_graph(made.model)) if len(each.shape) == 4]
    assert found.encoding is not None
    _, offsets = found.encoding.scales_and_offsets(found.shape)
    zero = int(numpy_helper.to_array(stored["w_zero_point"]))
    wanted = integers(stored["w_quantized"]) - zero
    np.testing.assert_array_equal(
        (found.stored().astype(np.int64) + offsets).transpose(3, 2, 0, 1), wanted
    )


@pytest.mark.parametrize("change", ["scale", "cast", "reader", "weights"])
def test_products_of_integers_that_are_not_scaled_so_stay_exact(
    tmp_path: Path, change: str
) -> None:
    """Graphs that differ from dynamic quantization compute the exact sums of integers."""
    dynamic = helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "qs", "qz"])
    other = node("Add", "qs one", "qs2") if change == "scale" else node("Identity", "qs", "qs2")
    nodes = [
        dynamic,
        other,
        node("Identity", "w", "w2"),
        node("MatMulInteger", "q w2 qz" if change == "weights" else "q w qz", "i"),
        node("Cast", "i", "c", to=TensorProto.DOUBLE if change == "cast" else TensorProto.FLOAT),
        node("Cast", "c", "f", to=TensorProto.FLOAT),
        node("Mul", "f qs2", "m"),
        node("Mul", "m ws", "n"),
        node("Cast", "i", "again", to=TensorProto.FLOAT),
        node("Add", "n again" if change == "reader" else "n n", "y"),
    ]
    numbers = {"w": RNG.integers(-128, 128, (12, 6)).astype(np.int8), "ws": np.float32(0.01),
               "one": np.float32(1)}  # fmt: skip
    path = saved(tmp_path / "net.onnx", nodes, (2, 12), numbers, opset=17)
    x = RNG.standard_normal((2, 12)).astype(np.float32)
    (wanted,) = ReferenceEvaluator(onnx.load(path)).run(None, {"x": x})
    with dt.Session(dt.convert(path)) as session:
        np.testing.assert_allclose(session.run({"x": x})["y"], wanted, rtol=1e-6)


@pytest.mark.parametrize("bits", [4, 8, 16])
def test_what_is_exported_here_comes_back_whole(tmp_path: Path, bits: int) -> None:
    samples = RNG.standard_normal((4, 1, 3, 8, 8)).astype(np.float32)
    quantized = dt.quantize(
        network(tmp_path / "net.onnx"),
        samples,
        weights_bitwidth=bits,
        bias_bitwidth=32,
        use_per_channel_quantization=True,
    )
    dt.export(quantized, tmp_path / "out.onnx")
    again = converted(tmp_path / "out.onnx")
    # a grid that happens to begin at 0 clips, and becomes a Relu
    before, after = (
        [each for each in shapes_of(only_graph(model)) if each[0] != "Relu"]
        for model in (quantized, again.model)
    )
    assert after == before
    assert kinds(again).keys() <= {"encoding", "weight", "bias", "clip"}
