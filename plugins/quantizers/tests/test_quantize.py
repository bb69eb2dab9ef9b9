"""The driver end to end on small graphs whose encodings are known beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from quantizing import dense, encoding, model_of, new_graph, output, quantized

import dovetail as dt
from dovetail.api.quantization import quantize_with_report
from dovetail.cli.quantization_run import report_table
from dovetail.container import Model, Producer
from dovetail.errors import ConfigError, QuantizationError
from dovetail.ir import (
    Array,
    AxisScaleOffset,
    Block,
    DType,
    Graph,
    ScaleOffset,
    Spec,
    Tensor,
    TensorKind,
    dequantize,
)
from dovetail.plugins.ops import installed_ops
from dovetail_opset.build import add, static

RNG = np.random.default_rng(7)


def test_ranges_become_encodings() -> None:
    weight = np.array([[1.0, -1.0], [0.5, 0.25]], np.float32)
    samples = np.array([[[1, 0.5]], [[-0.5, 2]]], np.float32)  # y: (0.5, 0.625), (0, 0.25)
    graph = quantized(dense(weight, None), samples)
    assert graph.tensor("x").dtype is DType.UFIXED_POINT_8
    # -0.5 .. 2 in 255 steps: the zero point is rint(0.5 / 2.5 * 255)
    assert encoding(graph, "x") == ScaleOffset(2.5 / 255, -51)
    assert encoding(graph, "y") == ScaleOffset(0.625 / 255, 0)
    assert encoding(graph, "w") == ScaleOffset(2 / 255, -128)
    stored = graph.tensor("w").stored()
    # rint(x / scale) + 128; the float32 scale is a little more than 2 / 255: 1 is below 127.5
    np.testing.assert_array_equal(stored, [[255, 1], [192, 160]])


def test_the_float_model_is_left_alone() -> None:
    model = model_of(dense(np.eye(2, dtype=np.float32), np.ones(2, np.float32)))
    before = {n: (t.spec, t.kind) for n, t in model.graphs["net"].tensors.items()}
    dt.quantize(model, np.ones((3, 1, 2), np.float32))
    assert before == {n: (t.spec, t.kind) for n, t in model.graphs["net"].tensors.items()}


def test_bias_of_32_bits_has_the_scale_of_input_times_weights() -> None:
    weight = RNG.standard_normal((3, 4)).astype(np.float32)
    bias = RNG.standard_normal(3).astype(np.float32)
    samples = RNG.standard_normal((5, 1, 4)).astype(np.float32)
    graph = quantized(dense(weight, bias), samples, bias_bitwidth=32)
    made = graph.tensor("b")
    assert made.dtype is DType.SFIXED_POINT_32
    product = encoding(graph, "x").scale * encoding(graph, "w").scale
    assert encoding(graph, "b") == ScaleOffset(product, 0)
    np.testing.assert_array_equal(made.stored(), np.rint(bias / np.float32(product)))

    rows = quantized(dense(weight, bias), samples, bias_bitwidth=32, use_per_row_quantization=True)
    of_weight, of_bias = rows.tensor("w").encoding, rows.tensor("b").encoding
    assert isinstance(of_weight, AxisScaleOffset)
    assert isinstance(of_bias, AxisScaleOffset)
    assert (of_weight.axis, of_bias.axis) == (0, 0)
    np.testing.assert_allclose(of_weight.scales, np.abs(weight).max(axis=1) / 127, rtol=1e-6)
    np.testing.assert_allclose(
        of_bias.scales, of_weight.scales * encoding(rows, "x").scale, rtol=1e-6
    )


def test_a_bias_too_large_for_its_product_widens_the_weights() -> None:
    weight = np.zeros((2, 4), np.float32)
    weight[0] = 1
    bias = np.array([0, 1000], np.float32)  # in steps of 1e-4 / 127 / 127 it would need 2^47
    graph = quantized(
        dense(weight, bias),
        np.full((2, 1, 4), 0.001, np.float32),
        bias_bitwidth=32,
        use_per_row_quantization=True,
    )
    made = graph.tensor("b")
    assert made.encoding is not None
    np.testing.assert_allclose(dequantize(made.stored(), made.encoding), bias, rtol=1e-6)


def test_bias_of_8_bits_has_a_range_of_its_own() -> None:
    graph = quantized(
        dense(np.eye(2, dtype=np.float32), np.array([-1, 3], np.float32)),
        np.ones((1, 1, 2), np.float32),
    )
    assert graph.tensor("b").dtype is DType.UFIXED_POINT_8
    assert encoding(graph, "b") == ScaleOffset(4 / 255, -64)


def conv(weight: Array, op_type: str = "Conv2d") -> Graph:
    graph, x = new_graph((1, 5, 5, weight.shape[2] if op_type == "Conv2d" else weight.shape[3]))
    pads = np.zeros((2, 2), np.uint32)
    made = add(
        graph, op_type, [x, static(graph, "w", weight)], name="y", stride=[1, 1], pad_amount=pads
    )
    output(made)
    return graph


@pytest.mark.parametrize("op_type", ["Conv2d", "DepthWiseConv2d"])
def test_weights_per_channel(op_type: str) -> None:
    shape = (3, 3, 2, 4) if op_type == "Conv2d" else (3, 3, 1, 4)
    weight = RNG.standard_normal(shape).astype(np.float32)
    graph = quantized(
        conv(weight, op_type),
        RNG.standard_normal((2, 1, 5, 5, 2 if op_type == "Conv2d" else 4)),
        use_per_channel_quantization=True,
    )
    made = graph.tensor("w")
    assert made.dtype is DType.SFIXED_POINT_8
    assert isinstance(made.encoding, AxisScaleOffset)
    assert made.encoding.axis == 3
    assert made.encoding.offsets is None
    most = np.abs(weight).max(axis=(0, 1, 2))
    np.testing.assert_allclose(made.encoding.scales, most / 127, rtol=1e-6)


@pytest.mark.parametrize(
    "options",
    [{"use_per_row_quantization": True}, {"weights_block_size": 4}],
    ids=["rows", "blocks"],
)
def test_weights_without_elements_have_one_scale(options: dict[str, Any]) -> None:
    weight = np.zeros((0, 8), np.float32)
    graph = quantized(dense(weight, None), np.ones((1, 1, 8)), **options)
    assert isinstance(graph.tensor("w").encoding, ScaleOffset)
    assert graph.tensor("y").shape == (1, 0)


def test_4_bit_weights_are_narrow_or_packed() -> None:
    weight = RNG.standard_normal((2, 2, 3, 5)).astype(np.float32)
    samples = RNG.standard_normal((2, 1, 5, 5, 3))
    options = {"weights_bitwidth": 4, "use_per_channel_quantization": True}
    wide = quantized(conv(weight), samples, **options).tensor("w")
    packed = quantized(conv(weight), samples, pack_4_bit_weights=True, **options).tensor("w")
    assert (wide.dtype, packed.dtype) == (DType.SFIXED_POINT_8, DType.SFIXED_POINT_4)
    assert wide.encoding is not None
    assert wide.encoding.bitwidth == 4
    assert wide.data is not None
    assert packed.data is not None
    assert packed.data.nbytes * 2 == wide.data.nbytes == weight.size
    np.testing.assert_array_equal(wide.stored(), packed.stored())
    assert wide.stored().min() >= -8
    assert wide.stored().max() <= 7


def test_weights_per_block() -> None:
    weight = RNG.standard_normal((3, 8)).astype(np.float32)
    graph = quantized(dense(weight, None), np.ones((1, 1, 8)), weights_block_size=4)
    made = graph.tensor("w").encoding
    assert isinstance(made, Block)
    assert made.block_size == (1, 4)
    most = np.abs(weight.reshape(3, 2, 4)).max(axis=2)
    np.testing.assert_allclose(made.scales, most / 127, rtol=1e-6)


def test_16_bits_and_symmetric_grids() -> None:
    samples = np.array([[[-2, 1]], [[1, 1]]], np.float32)
    graph = quantized(
        dense(np.eye(2, dtype=np.float32), None, relu=False),
        samples,
        act_bitwidth=16,
        act_quantizer_schema="symmetric",
        param_quantizer="symmetric",
    )
    assert graph.tensor("x").dtype is DType.SFIXED_POINT_16
    assert encoding(graph, "x") == ScaleOffset(2 / 32767, 0)
    assert graph.tensor("w").dtype is DType.SFIXED_POINT_8
    assert encoding(graph, "w") == ScaleOffset(1 / 127, 0)


def test_unsigned_symmetric_storage_where_nothing_is_negative() -> None:
    graph = quantized(
        dense(np.eye(2, dtype=np.float32), None),
        np.array([[[-2, 1]], [[1, 1]]], np.float32),
        act_quantizer_schema="unsignedsymmetric",
    )
    assert graph.tensor("x").dtype is DType.SFIXED_POINT_8
    assert graph.tensor("y").dtype is DType.UFIXED_POINT_8
    assert encoding(graph, "y") == ScaleOffset(1 / 255, 0)


def test_restricted_steps() -> None:
    graph = quantized(
        dense(np.eye(2, dtype=np.float32), None, relu=False),
        np.array([[[0, 1]]], np.float32),
        restrict_quantization_steps="0x00 0x80",
    )
    assert encoding(graph, "x").scale == np.float32(1 / 128)


@pytest.mark.parametrize("kind", [TensorKind.APP_READ, TensorKind.APP_READWRITE])
def test_interface_types_can_be_kept(kind: TensorKind) -> None:
    graph = dense(np.eye(2, dtype=np.float32), None)
    graph.tensor("y").kind = kind
    samples = RNG.standard_normal((4, 1, 2)).astype(np.float32)
    kept = dt.quantize(model_of(graph), samples, preserve_io_datatype=True)
    changed = dt.quantize(model_of(graph), samples)
    made = kept.graphs["net"]
    assert {t.dtype for t in (*made.inputs, *made.outputs)} == {DType.FLOAT_32}
    assert [n.op_type for n in made.nodes] == ["Quantize", "FullyConnected", "Relu", "Dequantize"]
    with dt.Session(kept) as one, dt.Session(changed) as other:
        np.testing.assert_array_equal(
            one.run({"x": samples[0]})["y"], other.run({"x": samples[0]})["y"]
        )


@pytest.mark.parametrize("dtype", [DType.FLOAT_32, DType.FLOAT_64])
def test_types_of_single_inputs_and_outputs_can_be_kept(dtype: DType) -> None:
    graph, x = new_graph((2,), dtype)
    other = graph.add_tensor(Tensor("other", dtype, (2,), TensorKind.APP_WRITE))
    output(add(graph, "ElementWiseNeg", [x], name="y"))
    output(add(graph, "ElementWiseNeg", [other], name="z"))
    samples = [{"x": [1, -2], "other": [3, 4]}]
    made = quantized(graph, samples, preserve_io_datatype=["x", "z"])
    found = {t.name: t.dtype for t in (*made.inputs, *made.outputs)}
    fixed = DType.UFIXED_POINT_8
    assert found == {"x": dtype, "other": fixed, "y": fixed, "z": dtype}
    with pytest.raises(ConfigError) as caught:
        quantized(graph, samples, preserve_io_datatype=["x", "zz"])
    (problem,) = caught.value.problems
    assert problem.message == "no input or output 'zz'"
    assert "'z'" in problem.hint


def test_float_readers_of_a_kept_input_read_it_as_it_is() -> None:
    graph, x = new_graph((2,))
    whole = add(graph, "Cast", [x], name="whole", spec=Spec(DType.INT_32, (2,)))
    output(whole)
    output(add(graph, "ElementWiseNeg", [x], name="y"))
    made = quantized(graph, [np.array([1.5, -2])], preserve_io_datatype=True)
    assert made.node("whole").inputs == (made.tensor("x"),)
    neg = made.node("y").inputs[0]
    assert neg is not None
    assert neg.dtype is DType.UFIXED_POINT_8


def test_samples_in_every_form_give_the_same() -> None:
    samples = RNG.standard_normal((4, 1, 2)).astype(np.float32)

    def generator() -> Iterator[Array]:
        yield from samples

    found = [
        encoding(quantized(dense(np.eye(2, dtype=np.float32), None), form), "x")
        for form in (
            samples,
            samples[:, 0],
            list(samples),
            [{"x": s} for s in samples],
            generator(),
        )
    ]
    assert found == [found[0]] * 5


def test_what_is_wrong_with_samples_is_told_at_once() -> None:
    graph = dense(np.eye(2, dtype=np.float32), None)
    with pytest.raises(QuantizationError) as caught:
        dt.quantize(
            model_of(graph), [np.ones((1, 2)), {"z": 1}, np.ones(3), np.full((1, 2), np.nan)]
        )
    texts = [str(p) for p in caught.value.problems]
    assert caught.value.code == "CALIBRATION_MISFIT"
    assert [t.split(":")[0] for t in texts] == ["sample 2", "sample 2", "sample 3", "sample 4"]
    assert "input 'z' not found" in texts[0]
    assert "missing input 'x'" in texts[1]
    assert "(3,)" in texts[2]
    assert "NaN" in texts[3]


@pytest.mark.parametrize("samples", [None, [], iter(())])
def test_no_samples(samples: Any) -> None:
    with pytest.raises(QuantizationError) as caught:
        dt.quantize(model_of(dense(np.eye(2, dtype=np.float32), None)), samples)
    assert caught.value.code == "CALIBRATION_EMPTY"


def test_infinities_are_named_and_can_be_let_pass() -> None:
    graph, x = new_graph((2,))
    logs = add(graph, "ElementWiseLog", [x], name="logs")
    output(add(graph, "ElementWiseAtan", [logs], name="y"))
    samples = [np.array([1, 2]), np.array([0, 4])]
    with pytest.raises(QuantizationError) as caught:
        dt.quantize(model_of(graph), samples)
    assert caught.value.code == "CALIBRATION_NOT_FINITE"
    (problem,) = caught.value.problems
    assert problem.where == "tensor 'logs'"
    assert "sample 2" in problem.message
    made = quantized(graph, samples, lenient=True)
    # the logarithm of zero has the end of the grid, 16 below the least of the others
    assert encoding(made, "logs").scale == pytest.approx((np.log(4) + 16) / 255, rel=1e-6)


def test_nan_is_named_where_it_begins() -> None:
    graph, x = new_graph((2,))
    root = add(graph, "ElementWiseSquareRoot", [x], name="root")
    output(add(graph, "ElementWiseMultiply", [root, root], name="y"))
    with pytest.raises(QuantizationError, match="first in tensor 'root'"):
        dt.quantize(model_of(graph), [np.array([1, -1])], lenient=True)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_named(wrong: float) -> None:
    weight, bias = np.eye(2, dtype=np.float32), np.ones(2, np.float32)
    weight[0, 1] = bias[0] = wrong
    with pytest.raises(QuantizationError) as caught:
        quantized(dense(weight, bias, relu=False), [np.ones((1, 2))], lenient=True)
    assert [p.where for p in caught.value.problems] == ["tensor 'w'", "tensor 'b'"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"act_bitwith": 8}, "act_bitwidth"),
        ({"act_bitwidth": 7}, "7"),
        ({"act_bw": 8, "act_bitwidth": 16}, "set twice"),
        ({"act_quantizer": "tf", "act_quantizer_schema": "symmetric"}, "mutually exclusive"),
        ({"ignore_encodings": True, "quantization_overrides": "x"}, "ignore_encodings"),
        ({"ignore_encodings": True, "float_fallback": True}, "float_fallback"),
        ({"percentile_calibration_value": 99.0}, "percentile"),
        ({"act_quantizer_calibration": "mini-max"}, "min-max"),
    ],
)
def test_options_that_cannot_be_taken(options: dict[str, Any], said: str) -> None:
    model = model_of(dense(np.eye(2, dtype=np.float32), None))
    with pytest.raises(dt.DovetailError) as caught:
        dt.quantize(model, np.ones((1, 1, 2)), **options)
    assert said in f"{caught.value} {caught.value.hint} {caught.value.problems}"


@pytest.mark.parametrize("samples", [5, "images.npy", np.float32(3), np.array(1.0), {"net": 5}])
def test_what_holds_no_samples_is_refused(samples: Any) -> None:
    model = model_of(dense(np.eye(2, dtype=np.float32), None))
    with pytest.raises(ConfigError, match="expected a sequence of samples") as caught:
        dt.quantize(model, samples)
    assert "list of inputs" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "holds NoneType, not numbers"),
        ([[1.0, None]], "holds float, not numbers"),
        ([[1.0], [1.0, 2.0]], "is a list that cannot become an array"),
        ([["1", "2"]], "not numbers"),
    ],
)
def test_an_input_that_is_no_array_of_numbers_is_told(value: Any, said: str) -> None:
    model = model_of(dense(np.eye(2, dtype=np.float32), None))
    with pytest.raises(QuantizationError) as caught:
        dt.quantize(model, [{"x": value}])
    (problem,) = caught.value.problems
    assert said in str(problem)
    assert problem.where == "sample 1"


def test_lines_of_one_source_are_told_apart() -> None:
    graph = dense(np.eye(2, dtype=np.float32), np.ones(2, np.float32))
    graph.tensor("b").source = "fc"  # as a frontend names a bias that it made
    made = quantize_with_report(model_of(graph), np.ones((1, 1, 2)))
    lines = [(d.tensor, d.name) for d in made.report.tensors["net"]]
    assert sorted(line for line in lines if line[0] == "fc") == [("fc", "b"), ("fc", "fc")]
    assert all(name is None for tensor, name in lines if tensor != "fc")
    text = report_table(made.report)
    assert "fc [b]" in text
    assert "fc [fc]" in text


def test_a_fault_is_listed_once_for_a_source() -> None:
    graph = dense(np.eye(2, dtype=np.float32), np.full(2, np.nan, np.float32))
    for name in ("w", "b"):
        graph.tensor(name).source = "layer"
    graph.tensor("w").data = Tensor.static("w", np.full((2, 2), np.nan, np.float32)).data
    with pytest.raises(QuantizationError) as caught:
        quantized(graph, np.ones((1, 1, 2)))
    assert [p.where for p in caught.value.problems] == ["tensor 'layer'"]


def test_several_graphs_need_samples_by_name() -> None:
    one, other = dense(np.eye(2, dtype=np.float32), None), dense(np.eye(3, dtype=np.float32), None)
    other.name = "second"
    model = Model.of(one, other, producer=Producer("test", "0"), registry=installed_ops())
    with pytest.raises(ConfigError):
        dt.quantize(model, [np.ones((1, 2))])
    made = quantize_with_report(model, {"net": np.ones((2, 1, 2)), "second": np.ones((3, 1, 3))})
    assert made.report.samples == {"net": 2, "second": 3}


def test_a_saved_model_runs_as_it_ran(tmp_path: Path) -> None:
    weight = RNG.standard_normal((3, 4)).astype(np.float32)
    samples = RNG.standard_normal((5, 1, 4)).astype(np.float32)
    made = dt.quantize(model_of(dense(weight, None)), samples, use_per_row_quantization=True)
    made.save(tmp_path / "net.dvt")
    with dt.Session(made) as one, dt.Session(tmp_path / "net.dvt") as other:
        np.testing.assert_array_equal(
            one.run({"x": samples[0]})["y"], other.run({"x": samples[0]})["y"]
        )
