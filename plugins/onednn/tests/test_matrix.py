"""Matrix products of every form against the ops' references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.container import WeightStore
from dovetail.ir import DType, Spec, TensorKind
from dovetail_onednn import onednn_kernels


def prepared_by_kernels(model: Any, **options: Any) -> Any:
    """Gives a plan whose every step is one of oneDNN's."""
    plan = model.prepare(**options)
    assert all(runs_a_primitive(step) for step in plan.steps)
    return plan


def runs_a_primitive(step: Any) -> bool:
    """Whether a kernel here made a step: its `bind` is that of `Places.step`."""
    return getattr(getattr(step.bind, "func", None), "__module__", "") == "dovetail_onednn.steps"


def agrees(model: Any, close: Any, y: Any, **options: Any) -> None:
    model.output(y)
    plan, feeds = prepared_by_kernels(model, **options), model.feeds()
    close(model.run(plan, feeds)[y.name], model.expected(feeds)[y.name])


extents = st.integers(1, 20)
tails = st.lists(st.sampled_from(["Gelu", "Relu", "full", "row", "one"]), max_size=3)


def with_tail(model: Any, y: Any, tail: list[str]) -> Any:
    """Adds what a product absorbs: functions, and operands that are full, a row or one number."""
    for i, kind in enumerate(tail):
        shapes = {"full": y.shape, "row": y.shape[-1:], "one": ()}
        if kind in shapes:
            y = model.add("ElementWiseAdd", y, model.random(f"t{i}", *shapes[kind]), name=f"y{i}")
        else:
            y = model.add(kind, y, name=f"y{i}")
    return y


# each example compiles a primitive, for which no deadline is known
@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    lead=st.lists(st.integers(1, 4), max_size=3),
    depth=extents,
    units=extents,
    bias=st.booleans(),
    keep_dims=st.booleans(),
    known=st.booleans(),
    tail=tails,
)
def test_fully_connected(
    new_model: Any,
    close: Any,
    lead: list[int],
    depth: int,
    units: int,
    bias: bool,
    keep_dims: bool,
    known: bool,
    tail: list[str],
) -> None:
    model = new_model()
    x = model.input("x", *lead, depth)
    make = model.random if known else model.input
    ins = [x, make("w", units, depth), *([make("b", units)] if bias else [])]
    y = model.add("FullyConnected", *ins, name="fc", keep_dims=keep_dims)
    agrees(model, close, with_tail(model, y, tail))


@pytest.mark.parametrize("batch", [1, 3])
def test_fully_connected_joins_other_dimensions(model: Any, close: Any, batch: int) -> None:
    x = model.input("x", batch, 3, 5, 7)
    agrees(model, close, model.add("FullyConnected", x, model.random("w", 11, 105), name="fc"))


@st.composite
def stacks(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Two shapes of stacks that broadcast, of different ranks too."""
    whole = draw(st.lists(st.integers(1, 4), max_size=2))
    found = []
    for _ in range(2):
        kept = whole[draw(st.integers(0, len(whole))) :]
        found.append([n if draw(st.booleans()) else 1 for n in kept])
    return found[0], found[1]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    batches=stacks(),
    m=extents,
    k=extents,
    n=extents,
    transposed=st.tuples(st.booleans(), st.booleans()),
    bias=st.booleans(),
    known=st.booleans(),
    tail=tails,
)
def test_matmul(
    new_model: Any,
    close: Any,
    batches: tuple[list[int], list[int]],
    m: int,
    k: int,
    n: int,
    transposed: tuple[bool, bool],
    bias: bool,
    known: bool,
    tail: list[str],
) -> None:
    model = new_model()
    left, right = ((k, m) if transposed[0] else (m, k)), ((n, k) if transposed[1] else (k, n))
    make = model.random if known else model.input
    ins = [model.input("a", *batches[0], *left), make("b", *batches[1], *right)]
    ins += [make("c", n)] if bias else []
    params = {"transpose_in0": transposed[0], "transpose_in1": transposed[1]}
    agrees(model, close, with_tail(model, model.add("MatMul", *ins, name="mm", **params), tail))
