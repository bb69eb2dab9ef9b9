"""Resizing against its definition, element by element in exact fractions, and its surprises."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Graph, ScaleOffset, Spec, Tensor, TensorKind
from dovetail_opset.build import add
from dovetail_opset.ops.resize import Interpolation
from dovetail_opset.resampling import Coordinates, Nearest

Run = Callable[..., Any]
HALF = Fraction(1, 2)


def place(mode: Coordinates, i: int, old: int, new: int) -> Fraction:
    """Return the position of element i of `new` among `old` ones."""
    if mode is Coordinates.ASYMMETRIC:
        return Fraction(i * old, new)
    if mode is Coordinates.ALIGN_CORNERS:
        return Fraction(i * (old - 1), new - 1) if new > 1 else Fraction(0)
    if mode is Coordinates.PYTORCH_HALF_PIXEL and new == 1:
        return Fraction(0)
    return (i + HALF) * old / new - HALF


def rounded(p: Fraction, mode: Nearest) -> int:
    if mode is Nearest.FLOOR:
        return math.floor(p)
    if mode is Nearest.CEIL:
        return math.ceil(p)
    low = math.floor(p)
    if p - low == HALF:
        return low if mode is Nearest.ROUND_PREFER_FLOOR else low + 1
    return low if p - low < HALF else low + 1


def cubic_weight(distance: float, a: float) -> float:
    d = abs(distance)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def line(x: Array, new: int, params: dict[str, Any]) -> Array:
    """Resize the first axis of x, element by element."""
    old = len(x)
    found = []
    for i in range(new):
        p = place(params["transformation_mode"], i, old, new)
        low = math.floor(p)
        match params["interpolation_mode"]:
            case Interpolation.NEAREST:
                parts = {rounded(p, params["nearest_mode"]): 1.0}
            case Interpolation.LINEAR:
                parts = {low: float(1 - (p - low)), low + 1: float(p - low)}
            case Interpolation.CUBIC:
                a = params["cubic_coeff"]
                parts = {j: cubic_weight(float(p - j), a) for j in range(low - 1, low + 3)}
                if params["exclude_outside"]:
                    parts = {j: w for j, w in parts.items() if 0 <= j < old}
                    total = sum(parts.values())
                    parts = {j: w / total for j, w in parts.items()}
        found.append(sum(w * x[min(max(j, 0), old - 1)] for j, w in parts.items()))
    return np.array(found).reshape(new, *x.shape[1:])


def resized(x: Array, shape: tuple[int, ...], params: dict[str, Any]) -> Array:
    found = x.astype(np.float64)
    for axis in range(1, x.ndim - 1):
        found = np.moveaxis(line(np.moveaxis(found, axis, 0), shape[axis], params), 0, axis)
    return found


def like(x: Array, shape: tuple[int, ...]) -> tuple[Spec]:
    return (Spec(DType.of(x.dtype), shape),)


extent = st.integers(1, 9)
spatial = st.lists(st.tuples(extent, extent), min_size=1, max_size=3)
modes = st.fixed_dictionaries(
    {
        "transformation_mode": st.sampled_from(Coordinates),
        "interpolation_mode": st.sampled_from(Interpolation),
        "nearest_mode": st.sampled_from(Nearest),
        "cubic_coeff": st.sampled_from([-0.75, -0.5]),
        "exclude_outside": st.booleans(),
    }
)


@settings(max_examples=150)
@given(spatial, modes, st.integers(0, 99))
def test_resize(run_op: Run, axes: list[tuple[int, int]], params: Any, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((2, *(o for o, _ in axes), 2), np.float32)
    shape = (2, *(n for _, n in axes), 2)
    y = run_op("Resize", x, specs=like(x, shape), **params)
    assert (y.shape, y.dtype) == (shape, np.float32)
    want = resized(x, shape, params)
    if params["interpolation_mode"] is Interpolation.NEAREST:
        np.testing.assert_array_equal(y, want)
    else:
        # up to 64 float32 numbers near 1, their weights rounded too
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=5e-6)


@settings(max_examples=60)
@given(extent, extent, extent, extent, st.sampled_from(["legacy", "corners", "half"]))
def test_bilinear(run_op: Run, h: int, w: int, nh: int, nw: int, which: str) -> None:
    x = np.random.default_rng(h * 10 + w).standard_normal((2, h, w, 3))
    params = {"align_corners": which == "corners", "half_pixel_centers": which == "half"}
    y = run_op("ResizeBilinear", x, specs=like(x, (2, nh, nw, 3)), **params)
    mode = {
        "legacy": Coordinates.ASYMMETRIC,
        "corners": Coordinates.ALIGN_CORNERS,
        "half": Coordinates.HALF_PIXEL,
    }[which]
    linear = {"transformation_mode": mode, "interpolation_mode": Interpolation.LINEAR}
    # float64
    np.testing.assert_allclose(y, resized(x, (2, nh, nw, 3), linear), rtol=1e-12, atol=1e-12)


def test_antialias_weighs_with_a_wide_triangle(run_op: Run) -> None:
    # 6 to 2 with half pixels: places 1 and 4, the triangle reaches 3 to each side
    x = np.array([3.0, 1, 4, 1, 5, 9], np.float32).reshape(1, 6, 1, 1)
    spec = like(x, (1, 2, 1, 1))
    y = run_op("ResizeBilinear", x, specs=spec, half_pixel_centers=True, antialias=True)
    flat = x.ravel()
    first = flat[:4] @ [2, 3, 2, 1] / 8
    last = flat[2:] @ [1, 2, 3, 2] / 8
    np.testing.assert_allclose(y.ravel(), [first, last], rtol=1e-6)  # float32


def test_antialias_changes_nothing_where_an_image_grows(run_op: Run, rng: Any) -> None:
    x = rng.standard_normal((1, 3, 4, 2))
    plain, smooth = (
        run_op("ResizeBilinear", x, specs=like(x, (1, 7, 4, 2)), antialias=on) for on in (0, 1)
    )
    np.testing.assert_array_equal(plain, smooth)


def test_antialias_keeps_what_is_constant(run_op: Run) -> None:
    x = np.full((1, 11, 13, 1), 7.0)
    y = run_op("ResizeBilinear", x, specs=like(x, (1, 3, 5, 1)), antialias=True)
    np.testing.assert_allclose(y, 7, rtol=1e-12)  # float64


def nearest_row(which: str, i: int, old: int, new: int) -> int:
    if which == "half":
        found = math.floor((i + HALF) * old / new)
    elif which == "corners":
        found = math.floor(Fraction(i * (old - 1), max(new - 1, 1)) + HALF)
    else:
        found = math.floor(Fraction(i * old, new))
    return min(found, old - 1)


@settings(max_examples=60)
@given(extent, extent, extent, extent, st.sampled_from(["legacy", "corners", "half"]))
def test_nearest_neighbor(run_op: Run, h: int, w: int, nh: int, nw: int, which: str) -> None:
    x = np.arange(2 * h * w, dtype=np.int32).reshape(1, h, w, 2)
    params = {"align_corners": which == "corners", "half_pixel_centers": which == "half"}
    y = run_op("ResizeNearestNeighbor", x, specs=like(x, (1, nh, nw, 2)), **params)
    for r, c in np.ndindex(nh, nw):
        want = x[:, nearest_row(which, r, h, nh), nearest_row(which, c, w, nw)]
        np.testing.assert_array_equal(y[:, r, c], want)


def test_half_way_places_are_exact(run_op: Run) -> None:
    # The fact that surprises: halving lands half-way between two elements, and the modes part.
    x = np.arange(40, dtype=np.int64).reshape(1, 40, 1)
    down, up = (
        run_op("Resize", x, specs=like(x, (1, 20, 1)), nearest_mode=mode).ravel()
        for mode in (Nearest.ROUND_PREFER_FLOOR, Nearest.ROUND_PREFER_CEIL)
    )
    np.testing.assert_array_equal(down, np.arange(0, 40, 2))
    np.testing.assert_array_equal(up, np.arange(1, 40, 2))


def test_interpolated_integers_are_cut(run_op: Run) -> None:
    x = np.array([0, 3, -3], np.int32).reshape(1, 3, 1)
    params = {"interpolation_mode": 1, "transformation_mode": 2}
    y = run_op("Resize", x, specs=like(x, (1, 5, 1)), **params)
    np.testing.assert_array_equal(y.ravel(), [0, 1, 3, 0, -3])


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.float16, np.float64])
def test_nearest_moves_any_type(run_op: Run, dtype: Any) -> None:
    x = np.array([1, 0, 1], dtype).reshape(1, 1, 3, 1)
    for op in ("Resize", "ResizeNearestNeighbor"):
        y = run_op(op, x, specs=like(x, (1, 2, 6, 1)))
        assert y.dtype == dtype
        np.testing.assert_array_equal(y[0, :, :, 0], np.tile([1, 1, 0, 0, 1, 1], (2, 1)))


def test_encoded_tensors(evaluate: Callable[..., Any]) -> None:
    encoding = ScaleOffset(0.5, -10)
    graph = Graph("encoded")
    made = Tensor("x", DType.UFIXED_POINT_8, (1, 1, 2, 1), TensorKind.APP_WRITE, encoding=encoding)
    x = graph.add_tensor(made)
    spec = Spec(DType.UFIXED_POINT_8, (1, 1, 4, 1), encoding)
    add(graph, "ResizeBilinear", [x], name="y", spec=spec, half_pixel_centers=True)
    values = evaluate(graph, {"x": np.array([10, 50], np.uint8).reshape(1, 1, 2, 1)})
    np.testing.assert_array_equal(values["y"].ravel(), [10, 20, 40, 50])


def test_empty_tensors(run_op: Run) -> None:
    for old, new in (((0, 2, 3, 1), (0, 4, 5, 1)), ((1, 2, 3, 1), (1, 0, 5, 1))):
        x = np.zeros(old, np.float32)
        for op in ("Resize", "ResizeNearestNeighbor", "ResizeBilinear"):
            assert run_op(op, x, specs=like(x, new)).shape == new
        assert run_op("ResizeBilinear", x, specs=like(x, new), antialias=True).shape == new


def test_refusals(run_op: Run) -> None:
    x = np.zeros((1, 2, 2, 1), np.float32)
    with pytest.raises(OpError, match="output must declare the new shape"):
        run_op("Resize", x)
    with pytest.raises(OpError, match="only the dimensions between batch and channels change"):
        run_op("ResizeBilinear", x, specs=like(x, (1, 4, 4, 2)))
    both = {"align_corners": True, "half_pixel_centers": True}
    with pytest.raises(OpError, match="are mutually exclusive"):
        run_op("ResizeNearestNeighbor", x, specs=like(x, (1, 4, 4, 1)), **both)
    with pytest.raises(OpError, match="rank 3 or more"):
        run_op("Resize", x[0, 0], specs=like(x, (2, 1)))
    with pytest.raises(OpError, match=r"in\[0\] must have rank 4"):
        run_op("ResizeBilinear", x[0], specs=like(x, (2, 4, 1)))
    with pytest.raises(OpError, match="has no elements on axis 1 to resize to 3"):
        run_op("Resize", x[:, :0], specs=like(x, (1, 3, 2, 1)))
