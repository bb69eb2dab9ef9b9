"""Ops that move elements, exactly like their references."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail_onednn import movement


@pytest.fixture(autouse=True, scope="module")
def small_ones_too() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(movement, "_LEAST", 1)
        yield


def check(model: Any, out: Any) -> None:
    model.output(out)
    prepared, feeds = model.prepare(), model.feeds()
    np.testing.assert_array_equal(
        model.run(prepared, feeds)[out.name], model.expected(feeds)[out.name]
    )
    (step,) = prepared.steps
    assert step.bind.__module__ == "dovetail_onednn.execution"


shapes = st.lists(st.integers(1, 7), min_size=1, max_size=5).map(tuple)


@settings(max_examples=60, derandomize=True)
@given(shape=shapes, data=st.data())
def test_transpose(new_model: Any, shape: tuple[int, ...], data: st.DataObject) -> None:
    model = new_model()
    perm = data.draw(st.permutations(range(len(shape))))
    check(model, model.add("Transpose", model.input("x", *shape), name="y", perm=perm))


@settings(max_examples=60, derandomize=True)
@given(
    shape=st.lists(st.sampled_from([1, 2, 3, 16, 32, 48, 64]), min_size=2, max_size=5),
    data=st.data(),
)
def test_transposes_by_blocks(new_model: Any, shape: list[int], data: st.DataObject) -> None:
    model = new_model()
    while math.prod(shape) > 1 << 18:
        shape[shape.index(max(shape))] = 2
    perm = data.draw(st.permutations(range(len(shape))))
    check(model, model.add("Transpose", model.input("x", *shape), name="y", perm=perm))


BLOCKS = [
    *(((1, 64, 14, 15), (0, 2, 3, 1)), ((1, 14, 15, 64), (0, 3, 1, 2))),
    *(((3, 48, 100), (0, 2, 1)), ((3, 100, 48), (0, 2, 1))),
    *(((96, 5, 40), (1, 2, 0)), ((2, 1000, 32), (0, 2, 1)), ((64, 128), (1, 0))),
    *(((2, 1024, 48), (0, 2, 1)), ((2048, 40), (1, 0))),
    *(((1, 301, 233), (0, 2, 1)), ((1, 65, 65, 17), (0, 3, 1, 2)), ((98305, 17), (1, 0))),
]


@pytest.mark.parametrize(("shape", "perm"), BLOCKS)
def test_columns_of_blocks_are_copied_twice(
    model: Any, shape: tuple[int, ...], perm: tuple[int, ...]
) -> None:
    check(model, model.add("Transpose", model.input("x", *shape), name="y", perm=perm))
    (step,) = model.prepare().steps
    assert [value.nbytes for value in step.scratch] == [step.reads[0].nbytes]


def test_blocks_of_the_library_are_copied_once(model: Any) -> None:
    check(model, model.add("Transpose", model.input("x", 5001, 16), name="y", perm=(1, 0)))
    (step,) = model.prepare().steps
    assert not step.scratch


@pytest.mark.parametrize(
    ("shape", "perm"),
    [
        *(((1, 16, 600), (0, 2, 1)), ((1, 47, 300), (0, 2, 1)), ((16, 32), (1, 0))),
        *(((8, 30, 2, 64), (0, 2, 1, 3)), ((4, 32, 10, 64), (3, 2, 1, 0))),
        *(((1, 256, 256, 32), (0, 3, 1, 2)), ((2, 301, 233), (0, 2, 1)), ((98500, 17), (1, 0))),
    ],
)
def test_others_are_copied_once(model: Any, shape: tuple[int, ...], perm: tuple[int, ...]) -> None:
    check(model, model.add("Transpose", model.input("x", *shape), name="y", perm=perm))
    (step,) = model.prepare().steps
    assert not step.scratch


def test_reorders_between_steps_are_by_blocks_too(model: Any, kinds: Any) -> None:
    y = model.add("Transpose", model.input("x", 1, 64, 14, 15), name="turned", perm=(0, 2, 3, 1))
    out = model.add("ReduceProd", y, name="y", axes=[3])
    model.output(out)
    prepared, feeds = model.prepare(), model.feeds()
    (reorder,) = (step for step in prepared.steps if not step.nodes)
    assert [value.nbytes for value in reorder.scratch] == [reorder.reads[0].nbytes]
    found = model.run(prepared, feeds)["y"]
    np.testing.assert_allclose(found, model.expected(feeds)["y"], rtol=1e-5)


@settings(max_examples=60, derandomize=True)
@given(shape=shapes, groups=st.integers(1, 5), data=st.data())
def test_channel_shuffle(
    new_model: Any, shape: tuple[int, ...], groups: int, data: st.DataObject
) -> None:
    model = new_model()
    axis = data.draw(st.integers(0, len(shape) - 1))
    x = model.input("x", *(n * groups if i == axis else n for i, n in enumerate(shape)))
    check(model, model.add("ChannelShuffle", x, name="y", num_groups=groups, axis=axis))


@pytest.mark.parametrize("op_type", ["DepthToSpace", "SpaceToDepth"])
@settings(max_examples=40, derandomize=True)
@given(
    shape=st.tuples(*[st.integers(1, 4)] * 3, st.sampled_from([3, 5, 16])),
    block=st.tuples(*[st.integers(1, 4)] * 2),
    mode=st.integers(0, 1),
)
def test_exchange_of_depth_and_space(
    new_model: Any, op_type: str, shape: tuple[int, ...], block: tuple[int, int], mode: int
) -> None:
    model, (n, h, w, c) = new_model(), shape
    deep = (n, h, w, c * math.prod(block)), (n, h * block[0], w * block[1], c)
    x = model.input("x", *deep[op_type == "SpaceToDepth"])
    check(model, model.add(op_type, x, name="y", block_size=block, mode=mode))


@pytest.mark.parametrize("by_numpy", [True, False])
@pytest.mark.parametrize("op_type", ["DepthToSpace", "SpaceToDepth"])
def test_short_runs_are_left_to_numpy(model: Any, op_type: str, by_numpy: bool) -> None:
    """Runs of 4 elements, of which NumPy copies some together."""
    block = (4, 4) if by_numpy else (2, 4)
    if op_type == "DepthToSpace":
        x = model.input("x", 1, 5, 7 if by_numpy else 2, math.prod(block))
    else:
        x = model.input("x", 1, 5 * block[0], 7 * block[1], 1)
    model.output(model.add(op_type, x, name="y", block_size=block, mode=0))
    prepared, feeds = model.prepare(), model.feeds()
    np.testing.assert_array_equal(model.run(prepared, feeds)["y"], model.expected(feeds)["y"])
    (step,) = prepared.steps
    assert (step.bind.__module__ != "dovetail_onednn.execution") is by_numpy


@settings(max_examples=60, derandomize=True)
@given(
    shape=shapes.filter(lambda s: len(s) > 1),
    extents=st.lists(st.integers(1, 9), min_size=2, max_size=6),
    data=st.data(),
)
def test_concat(
    new_model: Any, shape: tuple[int, ...], extents: list[int], data: st.DataObject
) -> None:
    model = new_model()
    axis = data.draw(st.integers(1, len(shape) - 1))
    shape = (shape[0] + 1, *shape[1:])  # more than one row
    inputs = [
        model.input(f"x{i}", *(n if i == axis else m for i, m in enumerate(shape)))
        for i, n in enumerate(extents)
    ]
    check(model, model.add("Concat", *inputs, name="y", axis=axis))


def test_one_tensor_joined_with_itself(model: Any) -> None:
    x = model.input("x", 3, 40, 8)
    check(model, model.add("Concat", x, x, name="y", axis=2))


@pytest.mark.parametrize("widths", [(16, 8), (1024, 1), (3, 5, 7)])
@pytest.mark.parametrize("axis", [2, 1])
def test_many_rows_are_copied_one_tensor_at_a_time(
    model: Any,
    monkeypatch: pytest.MonkeyPatch,
    widths: tuple[int, ...],
    axis: int,
) -> None:
    made: list[object] = []
    reorder = movement.reorder_primitive
    monkeypatch.setattr(
        movement, "reorder_primitive", lambda *descs: made.append(descs) or reorder(*descs)
    )
    shapes = [(600, width) if axis == 1 else (2, 300, width) for width in widths]
    inputs = [model.input(f"x{i}", *shape) for i, shape in enumerate(shapes)]
    check(model, model.add("Concat", *inputs, name="y", axis=axis))
    assert len(made) >= len(widths)


@pytest.mark.parametrize("op_type", ["Transpose", "Concat", "ChannelShuffle"])
def test_what_is_small_is_left_to_others(
    model: Any, monkeypatch: pytest.MonkeyPatch, kinds: Any, op_type: str
) -> None:
    monkeypatch.setattr(movement, "_LEAST", 100)
    x = model.input("x", 2, 4, 6)
    params: dict[str, Any] = {
        "Transpose": {"perm": [2, 1, 0]},
        "Concat": {"axis": 2},
        "ChannelShuffle": {"num_groups": 2},
    }[op_type]
    inputs = [x, x] if op_type == "Concat" else [x]
    model.output(model.add(op_type, *inputs, name="y", **params))
    assert kinds(model.prepare().steps) == ["reference y"]


def pooled(model: Any, x: Any, *, relu: bool = False, pads: Any = ((0, 0), (0, 0))) -> Any:
    y = model.conv(x, "conv", 8)
    y = model.add("Relu", y, name="relu") if relu else y
    window = {"filter_size": (2, 2), "stride": (1, 1), "pad_amount": pads}
    return model.add("PoolMax2d", y, name="y", **window)


# Readers of (2, 6, 5, 3), the transpose of (2, 3, 5, 6) or of (2, 3, 6, 5).
READERS: dict[str, Callable[[Any, Any], Any]] = {
    "convolution": lambda m, x: m.conv(x, "y", 8),
    "pooled convolution": pooled,
    "padded pooling": lambda m, x: pooled(m, x, pads=((1, 1), (0, 1))),
    "padded pooling after relu": lambda m, x: pooled(m, x, relu=True, pads=((1, 1), (0, 1))),
    "source of a product": lambda m, x: m.add("MatMul", x, m.input("z", 2, 6, 3, 16), name="y"),
    "transposed source": lambda m, x: m.add(
        "MatMul", x, m.input("z", 2, 6, 5, 16), name="y", transpose_in0=True
    ),
    "weights of a product": lambda m, x: m.add("MatMul", m.input("z", 2, 6, 7, 5), x, name="y"),
    "both": lambda m, x: m.add("MatMul", x, x, name="y", transpose_in1=True),
    "transpose": lambda m, x: m.add("Transpose", x, name="y", perm=(1, 0, 3, 2)),
    "softmax": lambda m, x: m.add("Softmax", x, name="y"),
    "two readers": lambda m, x: m.add("ElementWiseAdd", m.add("Relu", x, name="relu"), x, name="y"),
}


@pytest.mark.parametrize("perm", [(0, 3, 2, 1), (0, 2, 3, 1)], ids=["0321", "0231"])
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("is_input", [True, False])
def test_what_reads_a_transpose(
    model: Any, close: Any, reader: str, perm: tuple[int, ...], is_input: bool
) -> None:
    shape = [0] * 4
    for axis, extent in zip(perm, (2, 6, 5, 3), strict=True):
        shape[axis] = extent
    x = model.input("x", *shape)
    x = x if is_input else model.add("Tanh", x, name="tanh")
    model.output(READERS[reader](model, model.add("Transpose", x, name="t", perm=perm)))
    prepared = model.prepare()
    for _ in range(2):  # the second time with other arrays
        feeds = model.feeds()
        close(model.run(prepared, feeds)["y"], model.expected(feeds)["y"])


@pytest.mark.parametrize(
    ("reader", "moved"),
    [("pooled convolution", 1), ("padded pooling", 1), ("source of a product", 0)],
)
def test_who_can_reads_a_transpose_as_it_lies(
    model: Any, kinds: Any, reader: str, moved: int
) -> None:
    x = model.add("Transpose", model.input("x", 2, 3, 6, 5), name="t", perm=(0, 2, 3, 1))
    model.output(READERS[reader](model, x))
    prepared = model.prepare()
    assert kinds(prepared.steps).count("reorder") == moved
