"""The quantizer on whole networks: against the float network, and against onnxruntime."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static

import dovetail as dt
from dovetail.api.quantization import quantize_with_report
from dovetail.ir import AxisScaleOffset, DType, ScaleOffset

ROOT = Path(__file__).parents[1]
RNG = np.random.default_rng(19)
Floats = NDArray[np.float32]


def digits() -> tuple[Floats, NDArray[np.int64], Floats]:
    """Held-out images, their labels, and images to calibrate with: (n, 1, 1, 8, 8) each."""
    held = np.load(ROOT / "examples" / "digits" / "heldout.npz")
    seen = np.load(ROOT / "examples" / "trained" / "calibration.npz")["images"]
    images = [(each.astype(np.float32) / 16)[:, None, None] for each in (held["images"], seen)]
    return images[0], held["labels"].astype(np.int64), images[1][:100]


def scores(model: dt.Model, images: Floats) -> Floats:
    (graph,) = model.graphs.values()
    with dt.Session(model) as session:
        name, made = graph.inputs[0].name, graph.outputs[0].name
        return np.stack([session.run({name: image})[made].reshape(-1) for image in images])


def sqnr_db(exact: Floats, near: Floats) -> float:
    wide = exact.astype(np.float64)
    return float(10 * np.log10((wide**2).sum() / ((wide - near) ** 2).sum()))


@pytest.fixture(scope="module")
def network() -> dt.Model:
    logging.disable()
    try:
        return dt.convert(ROOT / "examples" / "digits" / "digits.onnx")
    finally:
        logging.disable(logging.NOTSET)


@pytest.mark.parametrize(
    ("options", "least_db"),
    [
        # 8 bits are 50 dB for one uniform tensor; a dozen layers of them cost 15 to 20
        ({}, 28),
        ({"use_per_channel_quantization": True, "bias_bitwidth": 32}, 32),
        ({"act_quantizer": "symmetric", "param_quantizer": "symmetric"}, 24),
        ({"act_quantizer_calibration": "mse", "bias_bitwidth": 32}, 28),
        (
            {
                "act_bitwidth": 16,
                "weights_bitwidth": 16,
                "bias_bitwidth": 32,
                "use_per_channel_quantization": True,
            },
            45,  # not 90: some held-out images go beyond what the calibration images reach
        ),
    ],
)
def test_digits_stay_recognised(
    network: dt.Model, options: dict[str, object], least_db: float
) -> None:
    images, labels, seen = digits()
    exact = scores(network, images)
    near = scores(dt.quantize(network, seen, **options), images)
    rights = [(each.argmax(axis=1) == labels).mean() for each in (exact, near)]
    assert rights[1] >= rights[0] - 0.005
    assert sqnr_db(exact, near) > least_db


class _Reader(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime has no types
    def __init__(self, samples: Floats) -> None:
        self._samples: Iterator[Floats] = iter(samples)

    def get_next(self) -> dict[str, Floats] | None:
        sample = next(self._samples, None)
        return None if sample is None else {"x": sample}


def small_network(path: Path) -> Path:
    """Two convolutions with Relu, a pool and a linear layer, random weights."""

    def weight(name: str, *shape: int) -> TensorProto:
        drawn = RNG.standard_normal(shape).astype(np.float32) / np.sqrt(np.prod(shape[1:]))
        return numpy_helper.from_array(drawn.astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"]),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("GlobalAveragePool", ["r2"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["y"], transB=1),
    ]
    weights = [
        weight("w1", 8, 3, 3, 3), weight("b1", 8), weight("w2", 12, 8, 3, 3), weight("b2", 12),
        weight("w3", 5, 12), weight("b3", 5),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("activation", [QuantType.QUInt8, QuantType.QInt8])
def test_what_onnxruntime_quantized_is_absorbed(
    tmp_path: Path, per_channel: bool, activation: QuantType
) -> None:
    samples = RNG.standard_normal((8, 1, 3, 8, 8)).astype(np.float32)
    source, target = small_network(tmp_path / "net.onnx"), tmp_path / "net.qdq.onnx"
    quantize_static(
        source,
        target,
        _Reader(samples),
        per_channel=per_channel,
        activation_type=activation,
        weight_type=QuantType.QInt8,
    )
    made = dt.quantize(dt.convert(target))  # no samples: the model brings all encodings
    graph = made.graphs["net.qdq"]
    assert {"Quantize", "Dequantize", "ElementWiseRound", "Cast"}.isdisjoint(
        node.op_type for node in graph.nodes
    )
    stored = {i.name: numpy_helper.to_array(i) for i in onnx.load(target).graph.initializer}
    weights = [t for t in graph.tensors.values() if t.dtype is DType.SFIXED_POINT_8]
    weights = [t for t in weights if t.kind.is_static]
    assert len(weights) == 3
    for name, perm in (("w1", (2, 3, 1, 0)), ("w2", (2, 3, 1, 0))):
        wanted = stored[f"{name}_quantized"].transpose(perm)
        assert any(
            w.shape == wanted.shape and np.array_equal(w.stored(), wanted) for w in weights
        ), name

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    peer = onnxruntime.InferenceSession(target, options)
    encoding = graph.tensor("y").encoding
    assert isinstance(encoding, ScaleOffset)
    with dt.Session(made) as session:
        for sample in samples:
            steps = session.run({"x": sample})["y"] - peer.run(None, {"x": sample})[0]
            # a sum that lies between two steps may be rounded either way
            assert np.abs(steps).max() <= 1.01 * encoding.scale


def with_stored_weights(path: Path, code: int, scale: Floats, zeros: list[int], **how: int) -> Path:
    """One convolution between pairs, with integers of a type that are drawn over all its range."""
    low, high = {
        TensorProto.INT4: (-8, 7), TensorProto.UINT8: (0, 255), TensorProto.INT16: (-32768, 32767),
        TensorProto.UINT16: (0, 65535),
    }[code]  # fmt: skip
    drawn = RNG.integers(low, high + 1, 4 * 3 * 3 * 3)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "xs", "xz"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], **how),
        helper.make_node("Conv", ["xd", "wd"], ["c"]),
        helper.make_node("QuantizeLinear", ["c", "ys", "yz"], ["yq"]),
        helper.make_node("DequantizeLinear", ["yq", "ys", "yz"], ["y"]),
    ]
    numbers = {
        "ws": scale, "xs": np.float32(0.0002), "xz": np.uint16(30000),
        "ys": np.float32(float(scale.max()) * (high - low) / 2000), "yz": np.uint16(32768),
    }  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 6, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 4, 4])],
        [
            helper.make_tensor("w", code, [4, 3, 3, 3], drawn.tolist()),
            helper.make_tensor("wz", code, scale.shape, zeros),
            *(numpy_helper.from_array(np.asarray(a), name) for name, a in numbers.items()),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, path)
    return path


@pytest.mark.parametrize(
    ("code", "zeros", "dtype"),
    [
        (TensorProto.UINT8, [128, 100, 30, 200], DType.UFIXED_POINT_8),
        (TensorProto.INT16, [0, 0, 0, 0], DType.SFIXED_POINT_16),
        (TensorProto.UINT16, [32768, 32768, 32768, 32768], DType.SFIXED_POINT_16),
        (TensorProto.INT4, [0, 0, 0, 0], DType.SFIXED_POINT_8),
    ],
)
def test_stored_weights_of_every_type_come_back(
    tmp_path: Path, code: int, zeros: list[int], dtype: DType
) -> None:
    scale = RNG.uniform(0.05, 1, 4).astype(np.float32)
    path = with_stored_weights(tmp_path / "net.onnx", code, scale, zeros, axis=0)
    stored = {i.name: numpy_helper.to_array(i) for i in onnx.load(path).graph.initializer}
    wanted = stored["w"].astype(np.int64) - np.reshape(zeros, (4, 1, 1, 1))
    made = quantize_with_report(dt.convert(path))
    (graph,) = made.model.graphs.values()
    (weight,) = (t for t in graph.tensors.values() if t.kind.is_static)
    assert weight.dtype is dtype
    assert isinstance(weight.encoding, AxisScaleOffset)
    _, offsets = weight.encoding.scales_and_offsets(weight.shape)
    found = weight.stored().astype(np.int64) + offsets
    np.testing.assert_array_equal(found.transpose(3, 2, 0, 1), wanted)
    told = [note for note in made.report.notes if "keep the offsets of channels or blocks" in note]
    assert bool(told) == (weight.encoding.offsets is not None)

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    peer = onnxruntime.InferenceSession(path, options)
    encoding = graph.tensor("y").encoding
    assert isinstance(encoding, ScaleOffset)
    with dt.Session(made.model) as session:
        sample = RNG.standard_normal((1, 3, 6, 6)).astype(np.float32)
        steps = session.run({"x": sample})["y"] - peer.run(None, {"x": sample})[0]
        # a sum that lies between two steps may be rounded either way
        assert np.abs(steps).max() <= 1.01 * encoding.scale


@pytest.mark.filterwarnings("ignore")
def test_what_a_model_brings_can_be_left_out(tmp_path: Path) -> None:
    samples = RNG.standard_normal((4, 1, 3, 8, 8)).astype(np.float32)
    source, target = small_network(tmp_path / "net.onnx"), tmp_path / "net.qdq.onnx"
    quantize_static(source, target, _Reader(samples / 10))
    made = dt.quantize(dt.convert(target), samples, ignore_encodings=True)
    fresh = dt.quantize(dt.convert(source), samples)
    ranges = [
        graph.tensor("x").encoding for model in (made, fresh) for graph in model.graphs.values()
    ]
    assert ranges[0] == ranges[1]


def test_a_file_may_speak_of_what_conversion_folds(tmp_path: Path) -> None:
    """AIMET lists the results of a Flatten; here its transpose went into the weights."""
    numbers = {
        "w": RNG.standard_normal((4, 3, 3, 3)).astype(np.float32),
        "d": RNG.standard_normal((64, 5)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Flatten", ["c"], ["flat"]),
        helper.make_node("Gemm", ["flat", "d"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 4, 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 5))],
        [numpy_helper.from_array(values, name) for name, values in numbers.items()],
    )
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    entries = [
        {"name": name, "output_dtype": "uint8", "y_scale": 0.1, "y_zero_point": 128}
        for name in ("x", "c", "flat", "y")
    ]
    given = tmp_path / "given.encodings"
    given.write_text(json.dumps({"version": "2.0.0", "encodings": entries}))
    model = dt.convert(path)
    assert model.graphs["net"].removed_sources >= {"flat"}
    model.save(tmp_path / "net.dvt")
    for each in (path, tmp_path / "net.dvt"):
        made = quantize_with_report(each, None, quantization_overrides=given)
        (note,) = [note for note in made.report.notes if "conversion" in note]
        assert note.endswith("'flat'")
        assert {t.encoding for t in made.model.graphs["net"].inputs} == {ScaleOffset(0.1, -128)}
