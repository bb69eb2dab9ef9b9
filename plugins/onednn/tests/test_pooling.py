"""Pooling of every geometry against the op's reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail_onednn.maximum import MaximumWithZeros


def pool(model: Any, op_type: str, x: Any, name: str = "y", **params: Any) -> Any:
    """Add a pooling, by default of 3x3 windows without a padding."""
    axes = int(op_type[-2])
    given = {"filter_size": (3,) * axes, "stride": (1,) * axes, "pad_amount": ((0, 0),) * axes}
    return model.add(op_type, x, name=name, **given | params)


@pytest.mark.parametrize("op_type", ["PoolMax2d", "PoolAvg2d"])
@pytest.mark.parametrize("channels", [1, 3, 16, 33])
@pytest.mark.parametrize("pad", [0, 1])
def test_images(model: Any, agrees: Any, op_type: str, channels: int, pad: int) -> None:
    x = model.input("x", 2, 9, 11, channels)
    agrees(model, pool(model, op_type, x, stride=(2, 2), pad_amount=((pad, pad),) * 2), engine="y")


@pytest.mark.parametrize("op_type", ["PoolMax3d", "PoolAvg3d"])
def test_volumes(model: Any, agrees: Any, op_type: str) -> None:
    x = model.input("x", 2, 5, 6, 7, 12)
    params = {"stride": (1, 2, 3), "pad_amount": ((1, 0), (0, 1), (1, 1))}
    agrees(model, pool(model, op_type, x, **params), engine="y")


def test_the_padding_takes_part_in_maxima(model: Any, agrees: Any, close: Any) -> None:
    """The maximum of negative numbers in a window with padding is 0."""
    y = pool(model, "PoolMax2d", model.input("x", 1, 5, 5, 8), pad_amount=((1, 0), (0, 1)))
    model.output(y)
    feeds = {"x": -1 - np.abs(model.feeds()["x"])}
    found = model.run(model.prepare(), feeds)["y"]
    inside = (slice(None), slice(1, None), slice(None, -1))
    assert (found[inside] < 0).all()
    assert (found[:, 0] == 0).all()
    assert (found[:, :, -1] == 0).all()
    np.testing.assert_array_equal(found, model.expected(feeds)["y"])


@st.composite
def geometries(draw: st.DrawFn) -> dict[str, Any]:
    axes = draw(st.integers(2, 3))
    size = [draw(st.integers(1, 4)) for _ in range(axes)]
    pads = [draw(st.tuples(st.integers(0, 4), st.integers(0, 4))) for _ in range(axes)]
    # at least one whole window along each axis
    least = [max(1, n - sum(p)) for n, p in zip(size, pads, strict=True)]
    params: dict[str, Any] = {
        "filter_size": size,
        "pad_amount": pads,
        "stride": [draw(st.integers(1, 4)) for _ in range(axes)],
        "rounding_mode": draw(st.integers(0, 1)),
    }
    kind = draw(st.sampled_from(["Max", "Avg"]))
    if kind == "Avg":
        params["count_pad_for_edges"] = draw(st.booleans())
    spatial = [n + draw(st.integers(0, 6)) for n in least]
    shape = (draw(st.integers(1, 2)), *spatial, draw(st.sampled_from([1, 3, 8, 20])))
    return {"op_type": f"Pool{kind}{axes}d", "shape": shape, "params": params}


# each example compiles a primitive, for which no deadline is known
@settings(max_examples=120, derandomize=True)
@given(case=geometries(), has_tail=st.booleans())
def test_any_geometry(new_model: Any, agrees: Any, case: dict[str, Any], has_tail: bool) -> None:
    model = new_model()
    x = model.input("x", *case["shape"])
    y = pool(model, case["op_type"], x, **case["params"])
    if has_tail:
        y = model.add("ElementWiseMultiply", y, model.random("scale", y.shape[-1]), name="scaled")
        y = model.add("Relu", model.add("ElementWiseAdd", y, y, name="twice"), name="relu")
    agrees(model, y)


def test_what_follows_is_absorbed(model: Any, agrees: Any) -> None:
    y = pool(model, "PoolAvg2d", model.input("x", 2, 8, 8, 16))
    y = model.add("ElementWiseMultiply", y, model.random("scale", 16), name="scaled")
    y = model.add("ElementWiseAdd", y, model.input("other", *y.shape), name="add")
    agrees(model, model.add("Relu", y, name="relu"), engine="y+scaled+add+relu")


def test_after_a_padded_maximum_nothing_is_absorbed(model: Any, agrees: Any, kinds: Any) -> None:
    y = pool(model, "PoolMax2d", model.input("x", 2, 8, 8, 16), pad_amount=((1, 1), (1, 1)))
    agrees(model, model.add("ElementWiseAbs", y, name="abs"))
    assert kinds(model.prepare().steps)[0] == "engine y"


def test_means_of_nothing_are_left_to_the_reference(model: Any, agrees: Any, kinds: Any) -> None:
    pads = ((4, 0), (0, 0))  # the first window is wholly in the padding
    agrees(model, pool(model, "PoolAvg2d", model.input("x", 1, 4, 4, 8), pad_amount=pads))
    assert kinds(model.prepare().steps) == ["reference y"]


def test_a_padding_that_no_window_reaches_is_left_out(model: Any, agrees: Any, kinds: Any) -> None:
    """The library rejects padding of the size of a window."""
    params = {"filter_size": (2, 2), "stride": (3, 2), "pad_amount": ((0, 3), (1, 1))}
    x = model.input("x", 1, 1, 1, 3)
    agrees(model, model.add("PoolAvg2d", x, name="y", **params))
    assert kinds(model.prepare().steps) == ["engine y"]


@pytest.mark.parametrize("form", [((1, 2), (2, 2), 6), ((1, 1), (2, 2), 6), ((2, 2), (3, 3), 6)])
def test_nothing_follows_a_maximum_of_nothing(
    model: Any, close: Any, form: tuple[tuple[int, int], tuple[int, int], int]
) -> None:
    """With the rounding mode CEIL a window may be beyond the image: its maximum is 0."""
    size, stride, extent = form
    params = {"pad_amount": ((0, 0), (0, 0)), "rounding_mode": 1}
    x = model.input("x", 1, extent, extent, 16)
    y = model.add("PoolMax2d", x, name="y", filter_size=size, stride=stride, **params)
    model.output(model.add("Sigmoid", y, name="after"))
    prepared, feeds = model.prepare(), model.feeds()
    wanted = model.expected(feeds)["after"]
    assert (wanted[:, -1] == 0.5).all()
    close(model.run(prepared, feeds)["after"], wanted)


@pytest.mark.parametrize("op_types", [("Relu", "Relu6"), ("Relu", "Tanh"), ("Sigmoid", None)])
def test_zeros_around_what_is_joined(
    model: Any, close: Any, op_types: tuple[str, str | None]
) -> None:
    """They take part unless no input is negative, through Concat and poolings too."""
    x = model.input("x", 1, 9, 9, 16)
    parts = [x if t is None else model.add(t, x, name=f"{t}{i}") for i, t in enumerate(op_types)]
    y = model.add("Concat", *parts, name="joined", axis=3)
    params = {"filter_size": (3, 3), "stride": (1, 1), "pad_amount": ((1, 1), (1, 1))}
    y = model.add("PoolMax2d", y, name="first", **params)
    model.output(model.add("PoolMax2d", y, name="second", **params))
    prepared = model.prepare()
    feeds = {"x": -np.abs(model.feeds()["x"])}
    close(model.run(prepared, feeds)["second"], model.expected(feeds)["second"])
    steps = {step.nodes[0]: step for step in prepared.steps if step.nodes}
    without = {
        name for name in ("first", "second") if not isinstance(steps[name].bind, MaximumWithZeros)
    }
    assert without == ({"first", "second"} if op_types == ("Relu", "Relu6") else set())
