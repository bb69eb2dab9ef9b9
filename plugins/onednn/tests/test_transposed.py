"""Transposed convolutions of every geometry against the op's reference."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def transposed(model: Any, x: Any, size: list[int], made: int, **params: Any) -> Any:
    """Add a transposed convolution, by default with stride 2, a padding of 1 and a bias."""
    axes, group = len(size), params.setdefault("group", 1)
    weight = model.random("w", *size, x.shape[-1], made // group)
    given: dict[str, Any] = {"stride": (2,) * axes, "pad_amount": ((1, 1),) * axes}
    if axes == 1:
        given = {"stride": 2, "pad_amount": (1, 1)}
    bias = [model.random("b", made)] if params.pop("bias", True) else []
    inputs = (x, weight, *bias)
    return model.add(f"TransposeConv{axes}d", *inputs, name="y", **given | params)


@pytest.mark.parametrize(
    ("shape", "size", "made", "params"),
    [
        pytest.param((2, 7, 9, 16), [4, 4], 8, {}, id="2d"),
        pytest.param((1, 7, 9, 16), [2, 2], 8, {"pad_amount": ((0, 0), (0, 0))}, id="no padding"),
        pytest.param((1, 7, 9, 5), [3, 4], 7, {"output_padding": (1, 0)}, id="output padding"),
        pytest.param((1, 7, 9, 16), [3, 3], 8, {"bias": False}, id="no bias"),
        pytest.param((1, 7, 9, 16), [3, 3], 16, {"group": 16}, id="a group each"),
        pytest.param((1, 7, 9, 16), [3, 3], 32, {"group": 4}, id="four groups"),
        pytest.param((2, 20, 16), [4], 8, {}, id="1d"),
        pytest.param((1, 4, 5, 6, 8), [3, 3, 3], 4, {}, id="3d"),
        pytest.param((1, 4, 5, 6, 8), [3, 2, 3], 4, {"dilation": (2, 1, 2)}, id="dilation"),
    ],
)
def test_geometry(
    model: Any,
    agrees: Any,
    kinds: Any,
    shape: tuple[int, ...],
    size: list[int],
    made: int,
    params: dict[str, Any],
) -> None:
    agrees(model, transposed(model, model.input("x", *shape), size, made, **params))
    assert "engine y" in kinds(model.prepare().steps)


def test_what_follows_is_absorbed(model: Any, agrees: Any) -> None:
    y = transposed(model, model.input("x", 2, 7, 9, 16), [4, 4], 8)
    y = model.add("ElementWiseAdd", y, model.input("other", *y.shape), name="add")
    y = model.add("ElementWiseMultiply", y, model.random("scale", 8), name="scaled")
    agrees(model, model.add("Relu", y, name="relu"), engine="y+add+scaled+relu")


@pytest.mark.parametrize(
    ("shape", "size", "made", "params"),
    [
        pytest.param((1, 4, 3, 512), [4, 4], 64, {}, id="filters larger than caches"),
        pytest.param((1, 4, 3, 512), [4, 4], 64, {"bias": False}, id="no bias"),
        pytest.param((1, 2, 2, 3, 256), [4, 4, 2], 64, {}, id="3d"),
        pytest.param((1, 7, 9, 16), [3, 3], 16, {"group": 16}, id="a group each"),
    ],
)
def test_nodes_after_sums_in_parts(
    model: Any,
    agrees: Any,
    shape: tuple[int, ...],
    size: list[int],
    made: int,
    params: dict[str, Any],
) -> None:
    y = transposed(model, model.input("x", *shape), size, made, **params)
    y = model.add("ElementWiseMultiply", y, model.random("scale", made), name="scaled")
    y = model.add("ElementWiseAdd", y, model.input("other", *y.shape), name="add")
    agrees(model, model.add("Relu", y, name="relu"), engine="y+scaled+add+relu")


def test_slopes_after_sums_in_parts(model: Any, agrees: Any) -> None:
    y = transposed(model, model.input("x", 1, 4, 3, 512), [4, 4], 64)
    agrees(model, model.add("Prelu", y, model.random("slopes", 64), name="prelu"))


@st.composite
def geometries(draw: st.DrawFn) -> dict[str, Any]:
    axes, group = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    size = [draw(st.integers(1, 4)) for _ in range(axes)]
    stride = [draw(st.integers(1, 3)) for _ in range(axes)]
    extras = [draw(st.integers(0, n - 1)) for n in stride]
    spatial = [draw(st.integers(1, 6)) for _ in range(axes)]
    pads = []
    for taps, step, extra, extent in zip(size, stride, extras, spatial, strict=True):
        room = step * (extent - 1) + taps + extra - 1  # at least one element is left
        before = draw(st.integers(0, min(room, 3)))
        pads.append((before, draw(st.integers(0, min(room - before, 3)))))
    params: dict[str, Any] = {"stride": stride, "pad_amount": pads, "output_padding": extras}
    if axes == 1:
        params = {name: values[0] for name, values in params.items()}
    params |= {"group": group, "bias": draw(st.booleans())}
    return {
        "shape": (draw(st.integers(1, 2)), *spatial, group * draw(st.integers(1, 18))),
        "size": size,
        "made": group * draw(st.integers(1, 18)),
        "params": params,
    }


# each example compiles a primitive or two, for which no deadline is known
@settings(max_examples=80, derandomize=True)
@given(case=geometries(), has_tail=st.booleans())
def test_any_geometry(new_model: Any, agrees: Any, case: dict[str, Any], has_tail: bool) -> None:
    model = new_model()
    x = model.input("x", *case["shape"])
    y = transposed(model, x, case["size"], case["made"], **case["params"])
    if has_tail:
        y = model.add("ElementWiseAdd", y, model.input("other", *y.shape), name="add")
        y = model.add("Relu", y, name="relu")
    agrees(model, y)


@pytest.mark.parametrize("group", [1, 2])
def test_computed_filters(model: Any, agrees: Any, kinds: Any, group: int) -> None:
    x, weight = model.input("x", 1, 5, 5, 8), model.input("w", 8, 4, 2, 2)
    weight = model.add("Transpose", weight, name="transposed", perm=(2, 3, 0, 1))
    params = {"stride": (2, 2), "pad_amount": ((0, 0), (0, 0)), "group": group}
    agrees(model, model.add("TransposeConv2d", x, weight, name="y", **params))
    assert "engine y" in kinds(model.prepare().steps)
