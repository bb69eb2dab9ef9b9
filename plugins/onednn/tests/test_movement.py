"""Elements moved: exactly those of the op's reference, whatever the shapes."""

from __future__ import annotations

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
    assert step.bind.__module__ == "dovetail_onednn.steps"


shapes = st.lists(st.integers(1, 7), min_size=1, max_size=5).map(tuple)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(shape=shapes, data=st.data())
def test_transpose(new_model: Any, shape: tuple[int, ...], data: st.DataObject) -> None:
    model = new_model()
    perm = data.draw(st.permutations(range(len(shape))))
    check(model, model.add("Transpose", model.input("x", *shape), name="y", perm=perm))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(shape=shapes, groups=st.integers(1, 5), data=st.data())
def test_channel_shuffle(
    new_model: Any, shape: tuple[int, ...], groups: int, data: st.DataObject
) -> None:
    model = new_model()
    axis = data.draw(st.integers(0, len(shape) - 1))
    x = model.input("x", *(n * groups if i == axis else n for i, n in enumerate(shape)))
    check(model, model.add("ChannelShuffle", x, name="y", num_groups=groups, axis=axis))


@settings(max_examples=60, deadline=None, derandomize=True)
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
