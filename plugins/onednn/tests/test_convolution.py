"""Convolutions of every geometry against the op's reference."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

POINTWISE = {"size": 1, "pad_amount": ((0, 0), (0, 0))}


@pytest.mark.parametrize(
    ("channels", "made", "params"),
    [
        pytest.param(3, 5, {}, id="odd channels"),
        pytest.param(1, 8, {}, id="one channel"),
        pytest.param(17, 35, {}, id="odd channels beyond a block"),
        pytest.param(8, 8, {"bias": False}, id="no bias"),
        pytest.param(8, 8, {"stride": (2, 3)}, id="strides"),
        pytest.param(8, 8, {"pad_amount": ((0, 2), (1, 0))}, id="uneven pads"),
        pytest.param(3, 5, {"stride": (2, 2), "pad_amount": ((0, 1), (0, 1))}, id="all odd"),
        pytest.param(16, 16, {"dilation": (2, 3), "pad_amount": ((2, 2), (3, 3))}, id="dilation"),
        pytest.param(16, 32, {"group": 2}, id="two groups"),
        pytest.param(15, 15, {"group": 3}, id="groups of odd sizes"),
        pytest.param(12, 12, {"group": 12}, id="a group each"),
        pytest.param(24, 112, {"group": 4, **POINTWISE}, id="1x1 in groups of few channels"),
        pytest.param(24, 16, {"group": 8, **POINTWISE}, id="1x1 in many groups"),
        pytest.param(64, 64, {"group": 2, **POINTWISE}, id="1x1 in groups of many channels"),
        pytest.param(16, 24, POINTWISE, id="1x1"),
        pytest.param(4, 6, {"size": 7, "pad_amount": ((3, 3), (3, 3)), "stride": (2, 2)}, id="7x7"),
    ],
)
def test_geometry(
    model: Any, close: Any, kinds: Any, channels: int, made: int, params: dict[str, Any]
) -> None:
    model.output(model.conv(model.input("x", 2, 11, 9, channels), "conv", made, **params))
    prepared, feeds = model.prepare(), model.feeds()

    assert "engine conv" in kinds(prepared.steps)
    close(model.run(prepared, feeds)["conv"], model.expected(feeds)["conv"])


@st.composite
def geometries(draw: st.DrawFn) -> dict[str, Any]:
    group = draw(st.integers(1, 4))
    size = draw(st.integers(1, 4))
    dilation = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    pads = draw(st.tuples(*[st.tuples(st.integers(0, 4), st.integers(0, 4))] * 2))
    # at least one whole window along each axis
    least = [(size - 1) * d + 1 - sum(p) for d, p in zip(dilation, pads, strict=True)]
    spatial = [draw(st.integers(max(n, 1), max(n, 1) + 8)) for n in least]
    return {
        "shape": (draw(st.integers(1, 2)), *spatial, group * draw(st.integers(1, 20))),
        "made": group * draw(st.integers(1, 20)),
        "group": group,
        "size": size,
        "dilation": dilation,
        "pad_amount": pads,
        "stride": draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
        "bias": draw(st.booleans()),
    }


# each example compiles a primitive or two, for which no deadline is known
@settings(max_examples=60, derandomize=True)
@given(geometry=geometries(), tail=st.sampled_from(["", "relu", "add"]))
def test_any_geometry(new_model: Any, close: Any, geometry: dict[str, Any], tail: str) -> None:
    model = new_model()
    shape, made = geometry.pop("shape"), geometry.pop("made")
    y = model.conv(model.input("x", *shape), "y", made, **geometry)
    if tail == "relu":
        y = model.add("Relu", y, name="relu")
    elif tail == "add":
        y = model.add("ElementWiseAdd", y, model.input("other", *y.shape), name="add")
    model.output(y)
    feeds = model.feeds()

    close(model.run(model.prepare(), feeds)[y.name], model.expected(feeds)[y.name])


@st.composite
def other_axes(draw: st.DrawFn) -> dict[str, Any]:
    """Geometries along one axis and three, of whole channels, groups, and a group each."""
    axes = draw(st.sampled_from([1, 3]))
    group, taken = draw(st.sampled_from([(1, 5), (1, 16), (2, 8), (3, 5), (12, 1), (16, 1)]))
    size = [draw(st.integers(1, 4)) for _ in range(axes)]
    params: dict[str, Any] = {
        "stride": [draw(st.integers(1, 3)) for _ in range(axes)],
        "dilation": [draw(st.integers(1, 2)) for _ in range(axes)],
        "pad_amount": [draw(st.tuples(st.integers(0, 3), st.integers(0, 3))) for _ in range(axes)],
    }
    spans = ((n - 1) * d + 1 for n, d in zip(size, params["dilation"], strict=True))
    spatial = [n + draw(st.integers(0, 5)) for n in spans]
    if axes == 1:
        params = {name: values[0] for name, values in params.items()}
    op_type = f"Conv{axes}d"
    if taken == 1 and axes == 1 and draw(st.booleans()):
        op_type = "DepthWiseConv1d"
    else:
        params["group"] = group
    return {
        "op_type": op_type,
        "shape": (draw(st.integers(1, 2)), *spatial, group * taken),
        "filters": (*size, taken, group * draw(st.integers(1, 4))),
        "params": params,
    }


# each example compiles a primitive or two, for which no deadline is known
@settings(max_examples=80, derandomize=True)
@given(case=other_axes(), has_tail=st.booleans())
def test_along_one_axis_and_three(
    new_model: Any, agrees: Any, case: dict[str, Any], has_tail: bool
) -> None:
    model = new_model()
    made = case["filters"][-1]
    inputs = model.input("x", *case["shape"]), model.random("w", *case["filters"])
    y = model.add(case["op_type"], *inputs, model.random("b", made), name="y", **case["params"])
    if has_tail:
        y = model.add("ElementWiseAdd", y, model.input("other", *y.shape), name="add")
        y = model.add("ElementWiseMultiply", y, model.random("scale", made), name="scaled")
    agrees(model, y)


@pytest.mark.parametrize("op_type", ["Conv1d", "DepthWiseConv1d"])
def test_depthwise_along_one_axis(model: Any, agrees: Any, op_type: str) -> None:
    params = {"group": 32} if op_type == "Conv1d" else {}
    inputs = model.input("x", 2, 40, 32), model.random("w", 5, 1, 32), model.random("b", 32)
    y = model.add(op_type, *inputs, name="y", stride=1, pad_amount=(2, 2), **params)
    y = model.add("ElementWiseAdd", y, model.input("other", 2, 40, 32), name="add")
    agrees(model, model.add("Relu", y, name="relu"), engine="y+add+relu")


@pytest.mark.parametrize(("channels", "group"), [(5, 1), (16, 1), (16, 2), (12, 12)])
@pytest.mark.parametrize("along", [{}, {"stride": 2, "dilation": 3}])
def test_columns_run_as_rows(
    model: Any, agrees: Any, channels: int, group: int, along: dict[str, int]
) -> None:
    inputs = model.input("x", 2, 40, 1, channels), model.random("w", 5, 1, channels // group, 24)
    params = {name: (along.get(name, 1), 1) for name in ("stride", "dilation")}
    pads = ((3, 2), (0, 0))
    y = model.add("Conv2d", *inputs, name="y", pad_amount=pads, group=group, **params)
    y = model.add("ElementWiseAdd", y, model.input("other", *y.shape), name="add")
    y = model.add("ElementWiseMultiply", y, model.random("scale", 24), name="scaled")
    is_fast = group < channels  # on every processor
    agrees(model, y, engine="y+add+scaled" if is_fast else None)


@pytest.mark.parametrize(
    ("channels", "made", "group", "size"),
    [
        pytest.param(32, 48, 1, 3, id="one group"),
        pytest.param(17, 35, 1, 3, id="odd channels"),
        pytest.param(32, 64, 2, 3, id="two groups"),
        pytest.param(256, 256, 256, 3, id="a group each"),
        pytest.param(30, 320, 2, 1, id="1x1 in groups"),
        pytest.param(64, 48, 1, 1, id="1x1"),
        pytest.param(3, 5, 1, 3, id="few elements"),
    ],
)
@pytest.mark.parametrize("is_transposed", [False, True])
def test_computed_filters(
    model: Any,
    agrees: Any,
    kinds: Any,
    channels: int,
    made: int,
    group: int,
    size: int,
    is_transposed: bool,
) -> None:
    shape = size, size, channels // group, made
    given_shape = tuple(shape[axis] for axis in (3, 2, 0, 1)) if is_transposed else shape
    w = model.add("Tanh", model.input("w", *given_shape), name="computed")
    if is_transposed:
        w = model.add("Transpose", w, name="transposed", perm=(2, 3, 1, 0))
    inputs = model.input("x", 2, 6, 7, channels), w, model.input("b", made)
    params = {"stride": (1, 1), "pad_amount": ((1, 1), (1, 1)), "group": group}
    y = model.add("Conv2d", *inputs, name="y", **params)
    agrees(model, model.add("Relu", y, name="relu"))
    assert "engine y+relu" in kinds(model.prepare().steps)


def test_computed_filters_of_one_channel_are_left_to_numpy(
    model: Any, agrees: Any, kinds: Any
) -> None:
    inputs = model.input("x", 1, 9, 9, 16), model.input("w", 3, 3, 16, 1)
    params = {"stride": (1, 1), "pad_amount": ((1, 1), (1, 1))}
    agrees(model, model.add("Conv2d", *inputs, name="y", **params))
    assert kinds(model.prepare().steps) == ["reference y"]


def test_no_elements(model: Any) -> None:
    model.output(model.conv(model.input("x", 0, 8, 8, 4), "conv", 4))
    assert model.run(model.prepare(), model.feeds())["conv"].shape == (0, 8, 8, 4)
