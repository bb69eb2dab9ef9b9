"""Graphs stored as float16: numbers that it cannot hold."""

from __future__ import annotations

import numpy as np
from quantizing import model_of, new_graph, output

import dovetail as dt
from dovetail.api.quantization import quantize_with_report
from dovetail.ir import DType
from dovetail_opset.build import add, static


def test_a_mask_of_the_largest_float32_stays_finite() -> None:
    graph, x = new_graph((4,))
    keep = static(graph, "keep", np.array([0, 0, 1, 1], np.float32))
    far = static(graph, "far", np.array([np.finfo(np.float32).min], np.float32))
    mask = add(graph, "ElementWiseMultiply", [keep, far], name="mask")
    output(add(graph, "Softmax", [add(graph, "ElementWiseAdd", [x, mask], name="sum")], name="y"))
    made = quantize_with_report(model_of(graph), None, float_bitwidth=16)
    (note,) = [note for note in made.report.notes if "float16" in note]
    assert note == "1 of 1 values of 'far' are beyond float16, and became 65504 or -65504"
    with dt.Session(made.model) as session:
        found = session.run({"x": np.array([1, 2, 300, 4], np.float16)})["y"]
    np.testing.assert_allclose(found, [0.2689, 0.7311, 0, 0], atol=2e-3)


def test_infinities_stay() -> None:
    graph, x = new_graph((3,))
    limits = static(graph, "limits", np.array([np.inf, 1e9, -np.inf], np.float32))
    output(add(graph, "ElementWiseMinimum", [x, limits], name="y"))
    made = quantize_with_report(model_of(graph), None, float_bitwidth=16)
    stored = made.model.graphs["net"].tensor("limits")
    assert stored.dtype is DType.FLOAT_16
    np.testing.assert_array_equal(stored.values(), [np.inf, 65504, -np.inf])


def test_the_border_of_a_maximum_pool_takes_no_steps() -> None:
    """It is the smallest float16, which would make steps of 257."""
    graph, x = new_graph((1, 5, 5, 2), DType.FLOAT_16)
    border = float(np.finfo(np.float16).min)
    pads = [(0, 0), (1, 1), (1, 1), (0, 0)]
    x = add(graph, "Pad", [x], name="pad", scheme=0, pad_amount=pads, pad_constant_value=border)
    pool = {"filter_size": [3, 3], "stride": [2, 2], "pad_amount": [(0, 0), (0, 0)]}
    output(add(graph, "PoolMax2d", [x], name="y", **pool))
    samples = np.random.default_rng(5).normal(size=(4, 1, 5, 5, 2)).astype(np.float32)
    found = []
    for model in (model_of(graph), dt.quantize(model_of(graph), samples)):
        with dt.Session(model) as session:
            dtype = np.float16 if not found else np.float32
            found.append(session.run({"x": samples[0].astype(dtype)})["y"])
    # half a step of 255 in a range of 7 at most
    np.testing.assert_allclose(found[1], found[0], atol=0.015)
