"""Notes on calibrated tensors whose grid is coarser than one would expect."""

from __future__ import annotations

import numpy as np
import pytest
from quantizing import model_of, new_graph, output

from dovetail.api.quantization import quantize_with_report
from dovetail.ir import DType, Graph, ScaleOffset, Spec
from dovetail_opset.build import add, static

RNG = np.random.default_rng(14)
SAMPLES = RNG.uniform(-2, 3, (6, 4, 8)).astype(np.float32)


def notes_of(graph: Graph, **options: object) -> str:
    """The notes of quantizing a graph, as one text."""
    return "\n".join(quantize_with_report(model_of(graph), list(SAMPLES), **options).report.notes)


@pytest.mark.parametrize(
    ("factor", "bits", "is_noted"),
    [
        (1e-6, 8, True),
        (1e-5, 8, False),
        (1e-6, 16, False),
        (1e-9, 16, True),
        (0, 8, False),
    ],
)
def test_ranges_below_the_smallest_grid_are_named(factor: float, bits: int, is_noted: bool) -> None:
    graph, x = new_graph((4, 8))
    small = static(graph, "small", np.full((), factor, np.float32))
    output(add(graph, "ElementWiseMultiply", [x, small], name="y"))
    assert ("'y' (" in notes_of(graph, act_bitwidth=bits)) == is_noted


@pytest.mark.parametrize(
    ("stored", "bits", "is_noted"),
    [
        (DType.UFIXED_POINT_16, 8, True),
        (DType.UFIXED_POINT_16, 16, False),
        (DType.UFIXED_POINT_8, 8, False),
    ],
)
def test_float_tensors_of_a_model_of_16_bits_are_named(
    stored: DType, bits: int, is_noted: bool
) -> None:
    graph, x = new_graph((4, 8))
    grid = Spec(stored, x.shape, ScaleOffset(5 / 2**stored.bits, -(2 ** (stored.bits - 1))))
    integers = add(graph, "Quantize", [x], name="integers", spec=grid)
    real = add(graph, "Dequantize", [integers], name="real")
    output(add(graph, "ElementWiseSin", [real], name="y"))
    found = notes_of(graph, act_bitwidth=bits)
    assert ("act_bitwidth=16" in found and "'y'" in found) == is_noted
