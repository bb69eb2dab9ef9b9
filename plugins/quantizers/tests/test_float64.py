"""Models of float64, which are quantized like those of float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from quantizing import model_of, new_graph, output

import dovetail as dt
from dovetail.api.quantization import quantize_with_report
from dovetail.container import Model
from dovetail.ir import DType, Graph
from dovetail_opset.build import add, static

RNG = np.random.default_rng(53)
WEIGHT = RNG.standard_normal((3, 4))
SAMPLES = list(RNG.standard_normal((4, 2, 3)))


def network(dtype: DType) -> Graph:
    """x (2, 3) -> MatMul product -> Softmax y."""
    graph, x = new_graph((2, 3), dtype)
    made = add(graph, "MatMul", [x, static(graph, "w", WEIGHT, dtype)], name="product")
    output(add(graph, "Softmax", [made], name="y"))
    return graph


def specs(model: Model) -> dict[str, Any]:
    return {t.name: t.spec for t in model.graphs["net"].tensors.values()}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"act_bitwidth": 16, "algorithms": ["cle"]},
        {"float_bitwidth": 16},
        {"keep_weights_quantized": True},
    ],
)
def test_the_same_as_of_float32(options: dict[str, Any]) -> None:
    alone = {"float_bitwidth", "keep_weights_quantized"} & options.keys()
    samples = None if alone else SAMPLES
    made = quantize_with_report(model_of(network(DType.FLOAT_64)), samples, **options)
    wanted = dt.quantize(model_of(network(DType.FLOAT_32)), samples, **options)
    assert specs(made.model) == specs(wanted)
    (note,) = [note for note in made.report.notes if "FLOAT_64" in note]
    assert "4 tensors of FLOAT_64 narrowed to FLOAT_32" in note


@pytest.mark.parametrize("options", [{}, {"float_bitwidth": 16}])
def test_interfaces_keep_the_type_if_asked(options: dict[str, Any]) -> None:
    samples = None if options else SAMPLES
    model = model_of(network(DType.FLOAT_64))
    made = dt.quantize(model, samples, preserve_io_datatype=True, **options)
    graph = made.graphs["net"]
    assert graph.tensor("x").dtype is graph.tensor("y").dtype is DType.FLOAT_64
    inner = DType.FLOAT_16 if options else DType.UFIXED_POINT_8
    assert graph.tensor("w").dtype is graph.tensor("product").dtype is inner
    with dt.Session(made) as session, dt.Session(model) as exact:
        found, wanted = (each.run({"x": SAMPLES[0]})["y"] for each in (session, exact))
    # shares of a Softmax with 8-bit scores
    np.testing.assert_allclose(found, wanted, atol=0.02)


def test_what_the_type_is_needed_for_is_noted() -> None:
    graph, x = new_graph((2, 3), DType.FLOAT_64)
    updated = static(graph, "w", WEIGHT, DType.FLOAT_64)
    updated.kind = updated.kind.UPDATEABLE_STATIC
    output(add(graph, "MatMul", [x, updated], name="y"))
    made = quantize_with_report(model_of(graph), SAMPLES)
    (note,) = [note for note in made.report.notes if "FLOAT_64" in note]
    assert note.endswith("are not quantized: 'x', 'w', 'y'")
