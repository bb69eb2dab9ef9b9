"""Reversals before and after recurrent layers become their direction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.ir import DType, Graph, Tensor, TensorKind, find_faults
from dovetail_opset.build import add, add_all, static
from dovetail_opset.passes import FoldReversals

Evaluate = Callable[..., Any]
STEPS, BATCH, WIDTH, UNITS = 5, 2, 3, 4


class Layers:
    """A graph with one sequence, reversals and layers."""

    def __init__(self, *, time_major: bool) -> None:
        self.time = 0 if time_major else 1
        self.rng = np.random.default_rng(3)
        self.graph = Graph("net")
        shape = (STEPS, BATCH, WIDTH) if time_major else (BATCH, STEPS, WIDTH)
        self.x = self.graph.add_tensor(Tensor("x", DType.FLOAT_32, shape, TensorKind.APP_WRITE))

    def reversed(self, x: Tensor, *, by: str = "Gather", axis: int | None = None) -> Tensor:
        axis = self.time if axis is None else axis
        if by == "Gather":
            indices = static(self.graph, "i", np.arange(x.shape[axis], dtype=np.int32)[::-1])
            return add(self.graph, "Gather", [x, indices], name="reversed", axis=axis)
        ranges = [(0, size, 1) for size in x.shape]
        ranges[axis] = (x.shape[axis] - 1, -1, -1)
        return add(self.graph, "StridedSlice", [x], name="reversed", ranges=ranges)

    def layer(self, x: Tensor, op_type: str = "Lstm", direction: int = 0) -> tuple[Tensor, ...]:
        gates = 4 if op_type == "Lstm" else 3
        shapes = [(UNITS, WIDTH)] * 3 + [(UNITS, UNITS)] * 3 + [(UNITS,)] * (gates - 1)
        made = [
            static(self.graph, f"w{i}", self.rng.standard_normal(shape).astype(np.float32) / 2)
            for i, shape in enumerate(shapes)
        ]
        inputs: list[Tensor | None] = [x, *made]
        if op_type == "Lstm":
            extra = [(UNITS, WIDTH), (UNITS, UNITS), (UNITS,)]
            parts = [
                static(self.graph, f"v{i}", self.rng.standard_normal(shape).astype(np.float32))
                for i, shape in enumerate(extra)
            ]
            inputs = [*inputs, *[None] * 6, *parts[:2], *[None] * 3, parts[2]]
        return add_all(
            self.graph,
            op_type,
            inputs,
            name="layer",
            outputs=[
                self.graph.fresh_name(name) for name in ("ych" if op_type == "Lstm" else "yh")
            ],
            direction=direction,
            time_major=self.time == 0,
        )

    def step(self, x: Tensor, index: int, *, shrink: bool = False) -> Tensor:
        ranges = [(0, size, 1) for size in x.shape]
        ranges[self.time] = (index, index + 1, 1)
        masks = {"shrink_axes": 1 << self.time} if shrink else {}
        return add(self.graph, "StridedSlice", [x], name="step", ranges=ranges, **masks)

    def run(self, outs: list[Tensor], evaluate: Evaluate, *, changed: bool = True) -> list[str]:
        """Run the pass, which keeps values; return the ops that are left."""
        for out in outs:
            out.kind = TensorKind.APP_READ
        names = [out.name for out in outs]
        feed = {"x": self.rng.standard_normal(self.x.shape).astype(np.float32)}
        before = evaluate(self.graph, feed)
        assert FoldReversals().run(self.graph) == changed
        assert not find_faults(self.graph)
        after = evaluate(self.graph, feed)
        for name in names:
            np.testing.assert_array_equal(after[name], before[name])
        assert not FoldReversals().run(self.graph)
        return sorted(node.op_type for node in self.graph.nodes)


@pytest.fixture(params=[True, False], ids=["time major", "batch major"])
def layers(request: pytest.FixtureRequest) -> Layers:
    return Layers(time_major=request.param)


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("by", ["Gather", "StridedSlice"])
@pytest.mark.parametrize("op_type", ["Lstm", "Gru"])
def test_a_reversed_sequence_in_both_orders(
    layers: Layers, evaluate: Evaluate, op_type: str, by: str, direction: int
) -> None:
    y, *states = layers.layer(layers.reversed(layers.x, by=by), op_type, direction)
    turned = layers.reversed(y, by=by)
    out = add(layers.graph, "Tanh", [turned], name="out")
    assert layers.run([out, *states], evaluate) == [op_type, "Tanh"]
    (node, _) = layers.graph.nodes
    assert "direction" in node.params
    assert node.sources == ("reversed", "layer")


def test_the_reversed_result_is_an_output(layers: Layers, evaluate: Evaluate) -> None:
    y, *_ = layers.layer(layers.reversed(layers.x))
    assert layers.run([layers.reversed(y)], evaluate) == ["Lstm"]


@pytest.mark.parametrize("shrink", [False, True])
def test_single_steps(layers: Layers, evaluate: Evaluate, shrink: bool) -> None:
    y, *_ = layers.layer(layers.reversed(layers.x))
    outs = [layers.step(y, index, shrink=shrink) for index in (STEPS - 1, 0, 1)]
    assert layers.run(outs, evaluate) == ["Lstm", *["StridedSlice"] * 3]


def test_only_the_states_are_read(layers: Layers, evaluate: Evaluate) -> None:
    _, *states = layers.layer(layers.reversed(layers.x))
    assert layers.run(states, evaluate) == ["Lstm"]


def test_a_reversal_that_others_read_stays(layers: Layers, evaluate: Evaluate) -> None:
    turned = layers.reversed(layers.x)
    y, *_ = layers.layer(turned)
    other = add(layers.graph, "Relu", [turned], name="other")
    assert layers.run([layers.reversed(y), other], evaluate) == ["Gather", "Lstm", "Relu"]


def test_what_stays(layers: Layers, evaluate: Evaluate) -> None:
    """The sequence is read as it is, or the reversal is along another axis."""
    y, *_ = layers.layer(layers.reversed(layers.x))
    outs = [add(layers.graph, "Relu", [y], name="all")]
    other = 1 - layers.time
    y, *_ = layers.layer(layers.reversed(layers.x, axis=other))
    outs.append(layers.step(y, 0))
    y, *_ = layers.layer(layers.reversed(layers.x))
    outs.append(layers.reversed(y, axis=other))
    y, *_ = layers.layer(layers.reversed(layers.x))
    ranges = [(0, size, 1) for size in y.shape]
    ranges[layers.time] = (0, 2, 1)
    outs.append(add(layers.graph, "StridedSlice", [y], name="two", ranges=ranges))
    layers.run(outs, evaluate, changed=False)


def test_a_sequence_that_is_an_output_stays(layers: Layers, evaluate: Evaluate) -> None:
    y, *_ = layers.layer(layers.reversed(layers.x))
    layers.run([y], evaluate, changed=False)
