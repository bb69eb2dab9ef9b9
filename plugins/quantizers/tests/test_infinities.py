"""Masks: whatever stands for minus infinity is still far away in fixed point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from quantizing import encoding, model_of, new_graph, output, quantized

import dovetail as dt
from dovetail.api.quantization import quantize_with_report
from dovetail.errors import QuantizationError
from dovetail.ir import Array, Graph, ScaleOffset, Tensor, TensorKind
from dovetail_opset.build import add, static

RNG = np.random.default_rng(11)
LEAST = float(np.finfo(np.float32).min)
HIDDEN = np.arange(12) % 3 == 0


def softmax(x: Array) -> Array:
    """Of the last axis, (..., n)."""
    raised = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def added(graph: Graph, x: Tensor, minimum: float) -> Tensor:
    """x + a mask of zeros and the least."""
    mask = static(graph, "mask", np.where(HIDDEN, minimum, 0).astype(np.float32))
    return add(graph, "ElementWiseAdd", [x, mask], name="masked")


def subtracted(graph: Graph, x: Tensor, minimum: float) -> Tensor:
    """x - a mask with values of its own, and what is far above them."""
    mask = static(graph, "mask", np.where(HIDDEN, -minimum, 0).astype(np.float32))
    return add(graph, "ElementWiseSubtract", [x, mask], name="masked")


def computed(graph: Graph, x: Tensor, minimum: float) -> Tensor:
    """x + flags * the least, as networks make a mask of what they are told."""
    flags = static(graph, "flags", HIDDEN.astype(np.float32))
    number = static(graph, "number", np.full(1, minimum, np.float32))
    moved = add(graph, "ElementWiseAbs", [flags], name="moved")
    mask = add(graph, "ElementWiseMultiply", [moved, number], name="mask")
    return add(graph, "ElementWiseAdd", [x, mask], name="masked")


def chosen(graph: Graph, x: Tensor, minimum: float) -> Tensor:
    """The least where a flag says so, else x."""
    flags = static(graph, "flags", HIDDEN)
    number = static(graph, "number", np.full(1, minimum, np.float32))
    return add(graph, "ElementWiseSelect", [flags, number, x], name="masked")


def divided(graph: Graph, x: Tensor, minimum: float) -> Tensor:
    """Masked, and scaled only then."""
    root = static(graph, "root", np.full(1, 8, np.float32))
    scaled = add(graph, "ElementWiseMultiply", [x, root], name="large")
    return add(graph, "ElementWiseDivide", [added(graph, scaled, minimum), root], name="small")


@pytest.mark.parametrize("minimum", [-1e4, LEAST, -1e32])
@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("mask", [added, subtracted, computed, chosen, divided])
def test_what_is_masked_gets_no_attention(
    mask: Callable[[Graph, Tensor, float], Tensor], bits: int, minimum: float
) -> None:
    graph, x = new_graph((2, 12))
    output(add(graph, "Softmax", [mask(graph, x, minimum)], name="y"))
    samples = RNG.standard_normal((8, 2, 12)).astype(np.float32)
    samples[:, :, HIDDEN] *= 20  # what is masked may be larger than all the rest
    model = dt.quantize(model_of(graph), samples, act_bitwidth=bits)
    with dt.Session(model) as session:
        for sample in samples:
            found = session.run({"x": sample})["y"]
            assert (found[:, HIDDEN] == 0).all()
            wanted = softmax(np.where(HIDDEN, -np.inf, sample))
            # x spans some 150, so a step of 8 bits is 0.6 and an exponent half of that off,
            # which moves a share of a half by 0.07; the sum's own step of 0.1 adds to it
            assert np.abs(found - wanted).max() < (0.12 if bits == 8 else 0.001)


def test_a_mask_that_is_infinite_and_has_values_of_its_own() -> None:
    graph, x = new_graph((1, 12))
    mask = static(graph, "mask", np.where(HIDDEN, -np.inf, -np.arange(12) / 4).astype(np.float32))
    total = add(graph, "ElementWiseAdd", [x, mask], name="total")
    output(add(graph, "Softmax", [total], name="y"))
    samples = RNG.standard_normal((8, 1, 12)).astype(np.float32)
    made = quantize_with_report(model_of(graph), samples)
    assert any("grid of 'mask'" in note for note in made.report.notes)
    with dt.Session(made.model) as session:
        found = session.run({"x": samples[0]})["y"]
    wanted = softmax(samples[0] - np.where(HIDDEN, np.inf, np.arange(12) / 4))
    # grids that span some 20 and 30: their steps make exponents off by 0.1
    np.testing.assert_allclose(found, wanted, atol=0.05)
    assert (found[:, HIDDEN] == 0).all()


def test_inputs_may_be_infinite_if_that_is_asked_for() -> None:
    graph, x = new_graph((1, 3))
    mask = graph.add_tensor(Tensor("mask", x.dtype, (1, 3), TensorKind.APP_WRITE))
    total = add(graph, "ElementWiseAdd", [x, mask], name="total")
    output(add(graph, "Softmax", [total], name="y"))
    sample = {"x": np.array([[3.0, 1, 1]]), "mask": np.array([[0, np.inf, 0]])}
    with pytest.raises(QuantizationError, match="lenient") as caught:
        dt.quantize(model_of(graph), [sample])
    assert caught.value.code == "CALIBRATION_NOT_FINITE"
    assert "'mask'" in caught.value.problems[0].where
    with dt.Session(dt.quantize(model_of(graph), [sample], lenient=True)) as session:
        found = session.run({k: v.astype(np.float32) for k, v in sample.items()})["y"]
    np.testing.assert_allclose(found, [[0, 1, 0]], atol=1 / 255)


def test_the_hint_on_nan_does_not_speak_of_masks() -> None:
    graph, x = new_graph((2,))
    output(add(graph, "ElementWiseSquareRoot", [x], name="y"))
    with pytest.raises(QuantizationError) as caught:
        dt.quantize(model_of(graph), [np.array([1, -1])])
    assert "lenient" not in (caught.value.hint or "")


@pytest.mark.parametrize("options", [{}, {"act_quantizer_calibration": "mse"}])
def test_what_has_no_elements_gets_the_least_range(options: dict[str, Any]) -> None:
    graph, x = new_graph((0, 3))
    output(add(graph, "ElementWiseAbs", [x], name="y"))
    made = quantized(graph, [np.zeros((0, 3))], **options)
    # the least range is 0.0001
    assert encoding(made, "x") == encoding(made, "y") == ScaleOffset(float(np.float32(1e-4 / 255)))
