"""Models whose inputs and outputs are integers or fixed-point.

They stay what they are, and everything between them is fixed-point.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from quantized_models import converted, kinds, node, only_graph, ops_of, pair, peer_of, saved
from runtime import peer_session

import dovetail as dt
from dovetail.api.quantization import quantize_with_report
from dovetail.ir import Array, DType, ScaleOffset
from dovetail_opset.passes import Interface, TensorForm

RNG = np.random.default_rng(91)
SHAPE = (1, 3, 6, 6)
WEIGHT = RNG.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8)
TYPES = [
    (TensorProto.UINT8, np.uint8, 131),
    (TensorProto.UINT8, np.uint8, 0),
    (TensorProto.INT8, np.int8, 0),
    (TensorProto.INT8, np.int8, -5),
    (TensorProto.UINT16, np.uint16, 30000),
    (TensorProto.INT16, np.int16, 0),
]


def layer(path: Path, code: int, dtype: Any, zero: int) -> Path:
    """Integers x -> DequantizeLinear -> Conv c -> QuantizeLinear -> integers y."""
    steps = 1 if dtype(0).itemsize == 1 else 256
    numbers = {
        "s": np.float32(0.02 / steps), "z": dtype(zero), "w": WEIGHT, "ws": np.float32(0.01),
        "wz": np.int8(0), "os": np.float32(0.15 / steps), "oz": dtype(zero),
    }  # fmt: skip
    nodes = [
        node("DequantizeLinear", "x s z", "a"),
        node("DequantizeLinear", "w ws wz", "wr"),
        node("Conv", "a wr", "c", pads=[1, 1, 1, 1]),
        node("QuantizeLinear", "c os oz", "y"),
    ]
    return saved(path, nodes, SHAPE, numbers, x=code, y=code)


def drawn(dtype: Any) -> Array:
    ends = np.iinfo(dtype)
    return RNG.integers(ends.min, ends.max + 1, SHAPE).astype(dtype)


def run(model: dt.Model, x: Array) -> Array:
    with dt.Session(model) as session:
        return session.run({"x": x})["y"]


@pytest.mark.parametrize(("code", "dtype", "zero"), TYPES)
def test_everything_between_is_fixed_point(
    code: int, dtype: Any, zero: int, tmp_path: Path
) -> None:
    path = layer(tmp_path / "net.onnx", code, dtype, zero)
    made = converted(path)  # no samples: the model says it all
    graph, x = only_graph(made.model), drawn(dtype)
    assert [t.dtype.storage for t in (*graph.inputs, *graph.outputs)] == [dtype, dtype]
    (conv,) = [n for n in graph.nodes if n.op_type == "Conv2d"]
    read = [t.dtype for t in (*conv.inputs, *conv.outputs) if t is not None]
    assert all(each.is_fixed_point for each in read)
    wanted, found = peer_of(path)(x), run(made.model, x)
    # sums of floats between two steps may become either
    assert np.abs(found.astype(int) - wanted).max() <= 1
    assert len(np.unique(wanted)) > 50
    assert "kept" not in kinds(made)
    assert {each.tensor for each in kinds(made)["encoding"]} == {"x", "c"}


def test_the_integers_need_no_work(tmp_path: Path) -> None:
    made = converted(layer(tmp_path / "net.onnx", *TYPES[0]))
    assert ops_of(made) == ["Cast", "Transpose", "Conv2d", "Transpose", "Cast"]
    kinds_of = [
        [t.dtype for t in (node.inputs[0], node.outputs[0]) if t is not None]
        for node in only_graph(made.model).nodes
        if node.op_type == "Cast"
    ]
    fixed, plain = DType.UFIXED_POINT_8, DType.UINT_8
    assert kinds_of == [[plain, fixed], [fixed, plain]]


def test_a_processor_without_moves_of_bytes_takes_them(tmp_path: Path) -> None:
    made, x = converted(layer(tmp_path / "net.onnx", *TYPES[0])).model, drawn(np.uint8)
    with dt.Session(made, "htp") as session:
        np.testing.assert_array_equal(session.run({"x": x})["y"], run(made, x))


@pytest.mark.parametrize(("code", "dtype", "zero"), TYPES)
def test_it_goes_out_again_as_it_came(code: int, dtype: Any, zero: int, tmp_path: Path) -> None:
    path, out, x = (
        layer(tmp_path / "net.onnx", code, dtype, zero),
        tmp_path / "o.onnx",
        drawn(dtype),
    )
    model = converted(path).model
    dt.export(model, out)
    peer = peer_session(out)
    assert [each.type for each in (*peer.get_inputs(), *peer.get_outputs())] == [
        f"tensor({np.dtype(dtype).name})"
    ] * 2
    (found,) = peer.run(None, {"x": x})
    assert np.abs(found.astype(int) - run(model, x)).max() <= 1
    again = converted(out).model
    np.testing.assert_array_equal(run(again, x), run(model, x))


@pytest.mark.parametrize(
    "options",
    [
        {"ignore_encodings": True, "algorithms": ["bias-correction"]},
        {"float_fallback": True},
        {"float_bitwidth": 16},
        {"algorithms": ["cle", "bias-correction", "adaround"], "bias_bitwidth": 32},
        {"algorithms": ["mixed-precision"], "act_bitwidth": 16},
    ],
)
def test_with_options_of_every_kind(options: dict[str, Any], tmp_path: Path) -> None:
    path = layer(tmp_path / "net.onnx", *TYPES[0])
    samples = [drawn(np.uint8) for _ in range(4)]
    alone = {"float_fallback", "float_bitwidth"} & options.keys()
    made = converted(path, calibration=None if alone else samples, **options)
    x = samples[0]
    # a step of the output is that of the model; another grid before it adds one of its own
    assert np.abs(run(made.model, x).astype(int) - peer_of(path)(x)).max() <= 3


def test_integers_that_are_moved_and_read_twice(tmp_path: Path) -> None:
    nodes = [
        node("MaxPool", "x", "p", kernel_shape=[2, 2]),
        node("DequantizeLinear", "p s z", "a"),
        node("DequantizeLinear", "x s z", "b"),
        node("ReduceMax", "b", "m", axes=[2, 3], keepdims=1),
        node("Mul", "a m", "c"),
        node("QuantizeLinear", "c os z", "q"),
        node("Transpose", "q", "y", perm=[0, 2, 3, 1]),
    ]
    # a step of the output is 249 of the product, an odd number: no result is between two integers,
    # which the peer rounds before it adds the zero point, and we after
    numbers = {"s": np.float32(0.02), "z": np.uint8(7), "os": np.float32(0.0996)}
    code = TensorProto.UINT8
    path = saved(tmp_path / "net.onnx", nodes, SHAPE, numbers, x=code, y=code, opset=13)
    samples = [drawn(np.uint8) for _ in range(3)]
    made = converted(path, calibration=samples)
    np.testing.assert_array_equal(run(made.model, samples[0]), peer_of(path)(samples[0]))
    assert not {"ElementWiseRound", "Quantize", "Dequantize"}.intersection(ops_of(made))


def test_integers_that_an_argmax_reads(tmp_path: Path) -> None:
    """As QOperator networks have it: of what is made real too."""
    nodes = [
        *pair("x", "a"),
        node("Tanh", "a", "t"),
        node("QuantizeLinear", "t s z", "q"),
        node("DequantizeLinear", "q s z", "y"),
        helper.make_node("ArgMax", ["q"], ["place"], axis=1),
        node("Cast", "place", "f", to=TensorProto.FLOAT),
    ]
    nodes[-3:-2] = [node("DequantizeLinear", "q s z", "r"), node("Neg", "r", "n")]
    nodes.append(node("Add", "n f", "y"))
    numbers = {"s": np.float32(0.05), "z": np.uint8(100)}
    path = saved(tmp_path / "net.onnx", nodes, (2, 5), numbers)
    samples = [RNG.standard_normal((2, 5)).astype(np.float32) for _ in range(3)]
    made = converted(path, calibration=samples)
    assert "kept" not in kinds(made)
    assert "ElementWiseRound" not in ops_of(made)
    found, wanted = run(made.model, samples[0]), peer_of(path)(samples[0])
    np.testing.assert_allclose(found, wanted, atol=0.06)  # steps of the tanh and of the sum


def test_entries_for_what_is_no_float_are_noted(tmp_path: Path) -> None:
    """Of integers, and of what made them real: the encoding of `x` is the model's."""
    path, given = layer(tmp_path / "net.onnx", *TYPES[0]), tmp_path / "given.json"
    entry = [{"bitwidth": 8, "min": -10.0, "max": 10.0}]
    content = {"activation_encodings": {"a": entry, "y": entry, "c": entry}, "param_encodings": {}}
    given.write_text(json.dumps(content))
    made = converted(path, quantization_overrides=given)
    (note,) = [note for note in made.report.notes if "entries" in note]
    assert note.endswith("tensors without float numbers: 'a', 'y'")
    (conv,) = [n for n in only_graph(made.model).nodes if n.op_type == "Conv2d"]
    assert conv.outputs[0].encoding == ScaleOffset(float(np.float32(20 / 255)), -128)


def _stated(path: Path, dtype: str, layouts: tuple[str, str] | None = None) -> dt.Model:
    """Convert a float network whose application passes and reads integers of 8 bits."""
    numbers = {"w": RNG.normal(0, 0.3, (4, 3, 3, 3)).astype(np.float32)}
    nodes = [node("Conv", "x w", "c", pads=[1, 1, 1, 1]), node("Relu", "c", "y")]
    nodes.append(node("GlobalAveragePool", "y", "z"))
    outputs = {"y": (1, 4, 6, 6), "z": (1, 4, 1, 1)}
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in outputs.items()]
    model = onnx.load(saved(path, nodes, SHAPE, numbers))
    del model.graph.output[:]
    model.graph.output.extend(infos)
    onnx.save(model, path)
    forms = (
        TensorForm("x", layouts, dtype, 0.05, -100 if dtype == "uint8" else 3),
        TensorForm("y", layouts, dtype, 0.04),
    )
    return dt.convert(path, name="net", before=[Interface(forms)])


@pytest.mark.parametrize("layouts", [None, ("NCHW", "NHWC")])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("options", [{}, {"algorithms": ["cle", "bias-correction"]}])
def test_encodings_of_the_application_are_those_of_the_network(
    options: dict[str, Any], dtype: str, layouts: tuple[str, str] | None, tmp_path: Path
) -> None:
    """They override what calibration finds, and nothing between them becomes float."""
    model = _stated(tmp_path / "net.onnx", dtype, layouts)
    samples = [RNG.integers(-100, 100, SHAPE).astype(np.int8) for _ in range(4)]
    if layouts is not None:
        samples = [x.transpose(0, 2, 3, 1) for x in samples]
    if dtype == "uint8":
        samples = [(x.astype(int) + 100).astype(np.uint8) for x in samples]
    made = quantize_with_report(model, calibration=samples, target_backend="htp", **options)
    graph, before = only_graph(made.model), only_graph(model)
    for name in ("x", "y"):
        assert graph.tensors[name].spec == before.tensors[name].spec
    flowing = [t for t in graph.tensors.values() if not t.kind.is_static]
    assert all(t.dtype.is_fixed_point for t in flowing)
    assert not {"Quantize", "Dequantize"}.intersection(ops_of(made))
    with dt.Session(model) as plain, dt.Session(made.model, "htp") as session:
        wanted, found = plain.run({"x": samples[0]}), session.run({"x": samples[0]})
    # a step of the sums, and one of the 8-bit output where signed and unsigned grids are converted
    assert np.abs(found["y"].astype(int) - wanted["y"]).max() <= 3
    assert "on no grid" not in " ".join(made.report.notes)
    assert {each.tensor for each in kinds(made)["stated"]} == {"x", "y"}


@pytest.mark.parametrize("layouts", [None, ("NCHW", "NHWC")])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("bits", [8, 16])
def test_the_style_of_the_sdk_computes_them_in_the_type_of_activations(
    bits: int, dtype: str, layouts: tuple[str, str] | None, tmp_path: Path
) -> None:
    """An HTP takes no operands of mixed types, and its script names no target."""
    model = _stated(tmp_path / "net.onnx", dtype, layouts)
    shape = SHAPE if layouts is None else (1, 6, 6, 3)
    samples = [RNG.integers(0, 100, shape).astype(dtype) for _ in range(4)]
    made = quantize_with_report(
        model, calibration=samples, quantization_style="sdk", act_bitwidth=bits
    )
    graph, before = only_graph(made.model), only_graph(model)
    for name in ("x", "y"):
        assert graph.tensors[name].spec == before.tensors[name].spec
    (conv,) = [n for n in graph.nodes if n.op_type == "Conv2d"]
    assert conv.inputs[0] is not None
    assert conv.inputs[0].dtype is DType.fixed(bits, signed=False)
    # its grid has the points of the input's, so that nothing is rounded on the way
    own, inner = before.tensors["x"].encoding, conv.inputs[0].encoding
    assert isinstance(own, ScaleOffset)
    assert isinstance(inner, ScaleOffset)
    assert own.scale / inner.scale == pytest.approx(1 if bits == 8 else 257)
    with dt.Session(model) as plain, dt.Session(made.model, "htp") as session:
        wanted, found = plain.run({"x": samples[0]}), session.run({"x": samples[0]})
    assert np.abs(found["y"].astype(int) - wanted["y"]).max() <= 3


@pytest.mark.parametrize("options", [{}, {"ignore_encodings": True}, {"act_bitwidth": 16}])
def test_float16_of_the_application_stays(options: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    numbers = {"w": RNG.normal(0, 0.3, (4, 3, 3, 3)).astype(np.float32)}
    saved(path, [node("Conv", "x w", "c"), node("Relu", "c", "y")], SHAPE, numbers)
    forms = (TensorForm("x", dtype="float16"), TensorForm("y", dtype="float16"))
    model = dt.convert(path, name="net", before=[Interface(forms)])
    samples = [RNG.normal(0, 1, SHAPE).astype(np.float32) for _ in range(4)]
    made = quantize_with_report(model, calibration=samples, **options)
    graph = only_graph(made.model)
    assert [t.dtype for t in (*graph.inputs, *graph.outputs)] == [DType.FLOAT_16] * 2
    assert "FLOAT_32" not in {t.dtype.name for t in graph.tensors.values()}
    with dt.Session(model) as plain, dt.Session(made.model, "htp") as session:
        wanted, found = plain.run({"x": samples[0]}), session.run({"x": samples[0]})
    # 8-bit inputs and weights
    np.testing.assert_allclose(found["y"], wanted["y"], atol=0.2)
