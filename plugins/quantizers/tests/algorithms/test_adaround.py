"""Learned rounding: better than nearest, on the grid, the same every time, for all layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from quantizing import dense, model_of, new_graph, output, quantized
from threadpoolctl import threadpool_info, threadpool_limits

from dovetail.api.quantization import quantize_with_report
from dovetail.ir import Array, DType, Graph, Tensor, TensorKind, dequantize
from dovetail.plugins.ops import installed_ops
from dovetail_opset.build import add, static
from dovetail_quantizers.algorithms.adaround_learning import Learned, Problem, Schedule, learn
from dovetail_quantizers.algorithms.adaround_products import outputs_at, rows_of
from dovetail_quantizers.calibration.running import node_runner

RNG = np.random.default_rng(7)
QUICK = {"adaround": {"iterations": 300, "rows": 512}}
FOUR_BITS = {"weights_bitwidth": 4, "bias_bitwidth": 32, "algorithm_params": QUICK}
# Inputs that go together, as those of a trained network do: errors of weights can cancel.
SAMPLES = (RNG.standard_normal((64, 1, 6)) @ RNG.standard_normal((6, 24))).astype(np.float32)
WEIGHT = RNG.standard_normal((8, 24)).astype(np.float32)


def weight_of(graph: Graph) -> Tensor:
    found = graph.nodes[0].inputs[1]
    assert found is not None
    return found


def real_weight(graph: Graph) -> Array:
    tensor = weight_of(graph)
    assert tensor.encoding is not None
    return dequantize(tensor.stored(), tensor.encoding)


def test_it_learns_in_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[set[int]] = []

    def watched(problem: Problem, schedule: Schedule) -> Learned:
        found.append(blas_threads())
        return learn(problem, schedule)

    def blas_threads() -> set[int]:
        libraries = threadpool_info()
        return {each["num_threads"] for each in libraries if each["user_api"] == "blas"}

    monkeypatch.setattr("dovetail_quantizers.algorithms.adaround.learn", watched)
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        graph = dense(WEIGHT, np.zeros(8, np.float32), relu=False)
        quantized(graph, list(SAMPLES), algorithms=["adaround"], **FOUR_BITS)
        assert found
        assert set.union(*found) <= {1}  # none where NumPy's BLAS cannot be set
        assert blas_threads() == before


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("per_row", [True, False])
def test_it_beats_nearest_and_stays_on_the_grid(relu: bool, per_row: bool) -> None:
    graph = dense(WEIGHT, RNG.standard_normal(8).astype(np.float32), relu=relu)
    options = FOUR_BITS | {"use_per_row_quantization": per_row}
    made = quantized(graph, list(SAMPLES), algorithms=["adaround"], **options)
    del options["algorithm_params"]
    nearest = quantized(graph, list(SAMPLES), **options)

    def error(weight: Array) -> float:
        bias = graph.tensor("b").values()
        results = [SAMPLES[:, 0] @ w.T + bias for w in (weight, WEIGHT)]
        if relu:
            results = [np.maximum(each, 0) for each in results]
        return float(np.square(results[0] - results[1]).sum())

    # of 24 correlated inputs learned rounding leaves a small part; a half is far from chance
    assert error(real_weight(made)) < 0.5 * error(real_weight(nearest))
    scales = np.asarray(weight_of(made).encoding.scales_and_offsets(WEIGHT.shape)[0])  # type: ignore[union-attr]
    away = np.abs(real_weight(made) - WEIGHT) / scales
    # rounding of float32 apart, nothing is a whole step off
    assert away.max() < 1 + 1e-5
    assert (away > 0.5 + 1e-5).any()
    assert weight_of(made).encoding == weight_of(nearest).encoding


def test_it_does_the_same_every_time() -> None:
    graph = dense(WEIGHT, None)
    options = FOUR_BITS | {"algorithm_params": {"adaround": {"iterations": 60, "batch": 8}}}
    runs = [quantized(graph, list(SAMPLES), algorithms=["adaround"], **options) for _ in range(2)]
    np.testing.assert_array_equal(*(weight_of(each).stored() for each in runs))


def test_no_channel_comes_out_worse_than_rounding_to_nearest() -> None:
    graph = dense(WEIGHT, None, relu=False)
    for iterations in (1, 40):
        params = {"adaround": {"iterations": iterations, "rate": 1.0}}
        made = quantized(
            graph,
            list(SAMPLES),
            weights_bitwidth=4,
            act_bitwidth=16,
            algorithms=["adaround"],
            algorithm_params=params,
        )
        nearest = quantized(graph, list(SAMPLES), weights_bitwidth=4, act_bitwidth=16)
        exact = SAMPLES[:, 0] @ WEIGHT.T
        errors = [
            np.square(SAMPLES[:, 0] @ real_weight(each).T - exact).sum(axis=0)
            for each in (made, nearest)
        ]
        # 16-bit inputs move the errors by a thousandth at most
        assert (errors[0] <= errors[1] * 1.001).all()


def test_a_channel_of_zeros_stays_zero_and_weights_on_the_grid_stay() -> None:
    weight = np.array([[0, 0, 0, 0], [7, -3, 2, 1]], np.float32)
    made = quantized(
        dense(weight, None),
        list(SAMPLES[..., :4]),
        weights_bitwidth=4,
        param_quantizer_schema="symmetric",
        use_per_row_quantization=True,
        algorithms=["adaround"],
        algorithm_params=QUICK,
    )
    np.testing.assert_array_equal(real_weight(made), weight)


def test_the_note_says_what_it_did() -> None:
    made = quantize_with_report(
        model_of(dense(WEIGHT, None)), list(SAMPLES), algorithms=["adaround"], **FOUR_BITS
    )
    note, verdict = made.report.notes
    assert verdict.startswith("adaround: kept")
    assert "of 192 weights rounded the other way" in note


CONV: dict[str, Any] = {"stride": [2, 1], "pad_amount": [[1, 0], [2, 1]], "dilation": [1, 2]}
LAYERS: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "conv": ("Conv2d", (2, 7, 6, 4), (3, 2, 4, 6), CONV),
    "groups": ("Conv2d", (2, 7, 6, 4), (3, 2, 2, 6), CONV | {"group": 2}),
    "depthwise": ("DepthWiseConv2d", (2, 7, 6, 4), (3, 2, 1, 8), CONV),
    "conv1d": (
        "Conv1d",
        (2, 9, 3),
        (4, 3, 5),
        {"stride": 2, "pad_amount": [1, 2]},
    ),
    "conv3d": (
        "Conv3d",
        (1, 4, 5, 6, 2),
        (2, 3, 2, 2, 3),
        {"stride": [1, 2, 1], "pad_amount": [[1, 0], [0, 1], [1, 1]]},
    ),
    "transposed": (
        "TransposeConv2d",
        (2, 4, 3, 4),
        (3, 4, 4, 5),
        {
            "stride": [2, 3],
            "pad_amount": [[1, 0], [2, 1]],
            "group": 2,
            "output_padding": [1, 0],
        },
    ),
    "matmul": ("MatMul", (2, 3, 5, 4), (4, 6), {}),
    "matmul turned": (
        "MatMul",
        (2, 4, 5),
        (1, 6, 4),
        {"transpose_in0": True, "transpose_in1": True},
    ),
    "dense": ("FullyConnected", (2, 3, 4), (6, 12), {}),
}


@pytest.mark.parametrize("layer", LAYERS)
def test_rows_times_columns_is_what_the_op_computes(layer: str) -> None:
    op_type, shape, weight_shape, params = LAYERS[layer]
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, shape, TensorKind.APP_WRITE))
    weight = RNG.standard_normal(weight_shape).astype(np.float32)
    add(graph, op_type, [x, static(graph, "w", weight)], name="y", **params)
    (node,) = graph.nodes
    data = RNG.standard_normal(shape).astype(np.float32)
    with node_runner(node, {1: weight}, installed_ops(), "cpu") as run:
        (exact,) = run({0: data})
    form = rows_of(node, installed_ops())
    assert form is not None
    places = RNG.permutation(exact.size // exact.shape[-1])[:17]
    columns = form.columns(weight)
    product = form.rows(data, places) @ columns
    # float32 sums of at most 24 products, in another order
    np.testing.assert_allclose(
        product, outputs_at(exact, len(columns), places), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_array_equal(form.weight(columns), weight)


def test_several_matrices_are_left_as_they_are() -> None:
    graph, x = new_graph((2, 3, 4))
    weight = static(graph, "w", RNG.standard_normal((2, 4, 5)).astype(np.float32))
    output(add(graph, "MatMul", [x, weight], name="y"))
    made = quantize_with_report(
        model_of(graph),
        [RNG.standard_normal((2, 3, 4)).astype(np.float32)],
        algorithms=["adaround"],
        algorithm_params=QUICK,
    )
    assert "is left out, its weights rounded to nearest" in made.report.notes[0]
