"""Grids of values that are whole numbers: every whole number of the range is a point."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quantizing import decisions, encoding, fake_quantize, model_of, new_graph, output, quantized

import dovetail as dt
from dovetail.ir import DType, Graph, Spec, Tensor
from dovetail_opset.build import add, static
from dovetail_quantizers.grid import Scheme, grid_for
from dovetail_quantizers.planning.whole_numbers import whole_grid

SAMPLES = [np.linspace(-0.4, 9.4, 64, dtype=np.float32)]
ROWS = np.arange(40, dtype=np.float32).reshape(10, 4) / 8


@given(
    low=st.integers(-300, 300),
    extent=st.integers(0, 600),
    part=st.sampled_from([0.0, 0.25]),
    bitwidth=st.sampled_from([4, 8, 16]),
    scheme=st.sampled_from([Scheme.ASYMMETRIC, Scheme.SYMMETRIC]),
)
def test_all_whole_numbers_are_points(
    low: int, extent: int, part: float, bitwidth: int, scheme: Scheme
) -> None:
    minimum, maximum = low + part, low + extent + part
    grid = grid_for(minimum, maximum, bitwidth, scheme)
    made = whole_grid(grid, minimum, maximum)
    first, last = min(low, 0), max(math.ceil(maximum), 0)
    wanted = np.arange(first, last + 1, dtype=np.float32)
    if scheme is Scheme.SYMMETRIC:
        steps, most = 2 ** (bitwidth - 1) - 1, max(-first, last)
    else:
        steps, most = 2**bitwidth - 1, last - first
    if most == 0 or most > steps:
        assert made is None
        return
    assert made is not None
    np.testing.assert_array_equal(fake_quantize(wanted, made.encoding, made.dtype), wanted)
    # the finest power of two whose grid spans the range
    assert math.frexp(made.scale)[0] == 0.5
    assert made.scale * steps >= most > made.scale / 2 * steps


def rows(*op_types: str) -> Graph:
    """x -> ops -> Cast to an index -> a row of a table, y."""
    graph, x = new_graph((64,))
    for op_type in op_types:
        x = step(graph, op_type, x)
    index = add(graph, "Cast", [x], name="index", spec=Spec(DType.INT_32, x.shape))
    table = static(graph, "table", ROWS)
    output(add(graph, "Gather", [table, index], name="y", axis=0))
    return graph


def step(graph: Graph, op_type: str, x: Tensor) -> Tensor:
    inputs, params = [x], {}
    if op_type == "ReluMinMax":
        params = {"min_value": 0.0, "max_value": 9.0}
    elif op_type == "ElementWiseSubtract":
        inputs.append(static(graph, "nine", np.full(1, 9, np.float32)))
    elif op_type == "ElementWiseUnary":
        params = {"operation": 6}  # floor
    return add(graph, op_type, inputs, name=op_type, **params)


@pytest.mark.parametrize("bitwidth", [8, 16])
@pytest.mark.parametrize(
    "op_types",
    [
        (),
        ("ReluMinMax",),
        ("ElementWiseFloor", "ReluMinMax"),
        ("ElementWiseUnary", "ReluMinMax"),
        ("ReluMinMax", "ElementWiseRound"),
        ("ElementWiseCeil", "ElementWiseSubtract", "ElementWiseAbs", "ReluMinMax"),
    ],
)
def test_a_cast_to_an_index_is_exact(op_types: tuple[str, ...], bitwidth: int) -> None:
    graph = rows(*op_types)
    # whole numbers and a quarter, which the grid of x does not move to another one
    x = np.floor(SAMPLES[0]) + np.float32(0.25)
    with dt.Session(model_of(graph)) as session:
        wanted = session.run({"x": x})["y"]
    made = quantized(graph, SAMPLES, act_bitwidth=bitwidth)
    with dt.Session(model_of(made)) as session:
        found = session.run({"x": x})["y"]
    assert np.abs(found - wanted).max() < 1 / 16  # rows are 1/2 apart


def test_others_keep_their_grids() -> None:
    graph, x = new_graph((64,))
    floor = add(graph, "ElementWiseFloor", [x], name="floor")
    half = static(graph, "half", np.full(1, 0.5, np.float32))
    output(add(graph, "ElementWiseAdd", [floor, half], name="y"))
    made = quantized(graph, SAMPLES)
    assert encoding(made, "floor").scale == 1 / 16
    assert encoding(made, "y").scale == pytest.approx(10 / 255)
    reasons = {name: each.why for name, each in decisions(graph, SAMPLES).items()}
    assert "points at whole numbers" in reasons["floor"]
    assert "points at whole numbers" not in reasons["y"]


def test_in_the_style_of_the_sdk_and_with_given_steps_ranges_decide() -> None:
    graph, x = new_graph((64,))
    output(add(graph, "ElementWiseFloor", [x], name="y"))
    assert encoding(quantized(graph, SAMPLES), "y").scale == 1 / 16
    for options in ({"quantization_style": "sdk"}, {"restrict_quantization_steps": "0x0 0xF0"}):
        found = encoding(quantized(graph, SAMPLES, **options), "y")
        assert math.frexp(found.scale)[0] != 0.5
