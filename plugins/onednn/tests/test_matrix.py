"""Matrix products of every form against the ops' references."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.container import WeightStore
from dovetail.ir import DType, Spec


def is_one_step(model: Any, agrees: Any, result: Any) -> None:
    """Check a product with fused nodes: one primitive, unless the result is several narrow rows."""
    *stack, columns = result.shape
    nodes = "+".join(node.name for node in model.graph.nodes)
    is_wide = columns >= 8 or math.prod(stack) == 1
    agrees(model, result, engine=nodes if is_wide else None)


extents = st.integers(1, 20)
tails = st.lists(st.sampled_from(["Gelu", "Relu", "full", "row", "one"]), max_size=3)


def with_tail(model: Any, y: Any, tail: list[str]) -> Any:
    """Add nodes that a product fuses: functions, and operands that are full, a row or a number."""
    for i, kind in enumerate(tail):
        shapes = {"full": y.shape, "row": y.shape[-1:], "one": ()}
        if kind in shapes:
            y = model.add("ElementWiseAdd", y, model.random(f"t{i}", *shapes[kind]), name=f"y{i}")
        else:
            y = model.add(kind, y, name=f"y{i}")
    return y


# each example compiles a primitive, for which no deadline is known
@settings(max_examples=60, derandomize=True)
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
    agrees: Any,
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
    is_one_step(model, agrees, with_tail(model, y, tail))


@pytest.mark.parametrize("batch", [1, 3])
def test_fully_connected_joins_other_dimensions(model: Any, agrees: Any, batch: int) -> None:
    x = model.input("x", batch, 3, 5, 7)
    is_one_step(
        model, agrees, model.add("FullyConnected", x, model.random("w", 11, 105), name="fc")
    )


@st.composite
def stacks(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Two shapes of stacks that broadcast, of different ranks too."""
    whole = draw(st.lists(st.integers(1, 4), max_size=2))
    found = []
    for _ in range(2):
        kept = whole[draw(st.integers(0, len(whole))) :]
        found.append([n if draw(st.booleans()) else 1 for n in kept])
    return found[0], found[1]


@settings(max_examples=150, derandomize=True)
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
    agrees: Any,
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
    is_one_step(
        model, agrees, with_tail(model, model.add("MatMul", *ins, name="mm", **params), tail)
    )


@pytest.mark.parametrize("tail", [[], ["Gelu", "row"], ["full", "one", "Relu"]])
@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.usefixtures("two_threads")
def test_products_great_enough_for_several_threads(
    model: Any, agrees: Any, rows: int, known: bool, is_transposed: bool, tail: list[str]
) -> None:
    make = model.random if known else model.input
    w = make("w", *((500, 700) if is_transposed else (700, 500)))
    ins = (model.input("x", 1, rows, 700), w, make("b", 500))
    y = model.add("MatMul", *ins, name="mm", transpose_in1=is_transposed)
    is_one_step(model, agrees, with_tail(model, y, tail))


def test_a_row_of_rank_five_is_added_after_the_product(model: Any, agrees: Any, kinds: Any) -> None:
    # the library only has generic code for a row added to five axes, so it is not fused
    y = model.add("MatMul", *(model.input(n, 2, 1, 3, 9, 9) for n in "ab"), name="product")
    agrees(model, model.add("ElementWiseAdd", y, model.random("row", 9), name="sum"))
    assert kinds(model.prepare().steps)[0] == "engine product"


@pytest.mark.parametrize("rows", [1, 6])
@pytest.mark.parametrize("op_type", ["FullyConnected", "MatMul"])
def test_fused_equals_unfused(model: Any, close: Any, op_type: str, rows: int) -> None:
    shape = (37, 50) if op_type == "FullyConnected" else (50, 37)
    y = model.add(op_type, model.input("x", rows, 50), model.random("w", *shape), name="y")
    model.output(model.add("Gelu", y, name="gelu"))
    fused, plain, feeds = model.prepare(), model.prepare(fuse=False), model.feeds()

    assert [len(step.nodes) for step in fused.steps] == [2]
    assert [len(step.nodes) for step in plain.steps] == [1, 1]
    close(model.run(fused, feeds)["gelu"], model.run(plain, feeds)["gelu"])


def test_long_sums_of_one_row(model: Any, agrees: Any) -> None:
    x = model.input("x", 1, 8192)
    y = model.add("FullyConnected", x, model.random("w", 40, 8192), name="fc")
    # unpacked, the columns of a matrix are added one after the other
    z = model.add("MatMul", x, model.random("v", 8192, 40), name="mm")
    agrees(model, model.add("ElementWiseAdd", y, z, name="sum"))


def test_weights_are_packed_once_and_great_ones_not_for_one_row(new_model: Any) -> None:
    store = WeightStore()
    for rows, count in ((1, 0), (4, 1), (7, 1)):
        model = new_model()  # of the same seed: equal weights
        x = model.input("x", rows, 600)
        model.output(model.add("FullyConnected", x, model.random("w", 500, 600), name="y"))
        model.prepare(store)
        assert len(store.forms) == count
    model = new_model()
    x = model.input("x", 4, 500)
    model.output(model.add("MatMul", x, model.random("w", 500, 600), name="y"))
    model.prepare(store)  # the same content, but not transposed
    assert len(store.forms) == 2


@pytest.mark.usefixtures("blocked")
def test_a_source_in_blocks_is_read_dense(model: Any, close: Any, kinds: Any) -> None:
    y = model.conv(model.input("x", 2, 6, 5, 3), "conv", 16)
    y = model.add("FullyConnected", y, model.random("w", 10, 480), name="fc")
    model.output(y)
    plan, feeds = model.prepare(), model.feeds()

    assert kinds(plan.steps)[-2:] == ["reorder", "engine fc"]
    close(model.run(plan, feeds)["fc"], model.expected(feeds)["fc"])


@pytest.mark.parametrize("columns", [1, 3, 7])
def test_large_products_of_few_columns_use_the_engines_threads(
    model: Any, agrees: Any, columns: int
) -> None:
    x, w = model.input("x", 2, 700, 256), model.random("w", 256, columns)
    agrees(model, model.add("MatMul", x, w, name="y"), engine="y")


@pytest.mark.parametrize(("columns", "kind"), [(1, "reference y"), (4, "engine y")])
def test_stacks_of_large_products_of_few_columns(
    model: Any, agrees: Any, kinds: Any, columns: int, kind: str
) -> None:
    x, w = model.input("x", 9, 300, 128), model.input("w", 9, 128, columns)
    agrees(model, model.add("MatMul", x, w, name="y"))
    assert kinds(model.prepare().steps) == [kind]


def test_what_is_left_to_other_kernels(model: Any, kinds: Any) -> None:
    x, w = model.input("x", 0, 5), model.random("w", 3, 5)
    model.output(model.add("FullyConnected", x, w, name="empty"))
    model.output(model.add("MatMul", x, w, name="none", transpose_in1=True))
    z = model.input("z", 8, 5)
    model.output(model.add("FullyConnected", z, w, name="narrow"))
    half = Spec(DType.FLOAT_16, (2, 5))
    low = model.add("Cast", model.input("y", 2, 5), name="low", spec=half)
    low_w = model.add("Cast", w, name="low_w", spec=Spec(DType.FLOAT_16, w.shape))
    in_half = model.add("FullyConnected", low, low_w, name="half")
    model.output(model.add("Cast", in_half, name="wide", spec=Spec(DType.FLOAT_32, (2, 3))))
    plan, feeds = model.prepare(), model.feeds()

    for name in ("empty", "none", "narrow", "half"):
        assert f"reference {name}" in kinds(plan.steps)
    found = model.run(plan, feeds)
    assert found["empty"].shape == found["none"].shape == (0, 3)
    wanted = model.expected(feeds)
    for name in ("narrow", "wide"):
        np.testing.assert_array_equal(found[name], wanted[name])
