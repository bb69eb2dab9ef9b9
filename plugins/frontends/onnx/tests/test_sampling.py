"""GridSample, AffineGrid and CenterCropPad against the peers."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from dovetail.errors import FrontendError, UnsupportedOpError

F32, I64 = np.float32, np.int64
# Places are computed in float32, up to ten elements away.
LOOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.mark.parametrize(("opset", "mode"), [(16, "bilinear"), (20, "linear"), (22, "linear")])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [0, 1])
def test_grid_sample(check, rng, opset, mode, padding, corners) -> None:
    x = rng.standard_normal((2, 3, 4, 5)).astype(F32)
    grid = rng.uniform(-1.8, 1.8, (2, 3, 6, 2)).astype(F32)
    params = {"mode": mode, "padding_mode": padding, "align_corners": corners}
    check("GridSample", [x, grid], opset=opset, **params, **LOOSE)
    # places at which two elements are equally near are left out: 1 / 7 steps
    grid = (rng.integers(-9, 10, grid.shape) / 7 + 0.01).astype(F32)
    params["mode"] = "nearest"
    check("GridSample", [x, grid], opset=opset, **params)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [0, 1])
def test_grid_sample_of_volumes(check, rng, padding, corners) -> None:
    x = rng.standard_normal((1, 2, 3, 4, 5)).astype(F32)
    grid = rng.uniform(-1.5, 1.5, (1, 2, 3, 4, 3)).astype(F32)
    params = {"padding_mode": padding, "align_corners": corners}
    check("GridSample", [x, grid], opset=20, mode="linear", **params, **LOOSE)


@pytest.mark.parametrize(("opset", "mode"), [(16, "bicubic"), (20, "cubic"), (22, "cubic")])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 2, 1, 7), (2, 1, 2, 3)])
def test_cubic_samples(check, rng, opset, mode, padding, corners, shape) -> None:
    x = rng.standard_normal(shape).astype(F32)
    # some far outside; with one row, mirrored at its middle, ONNX Runtime divides by 0 there
    grid = rng.uniform(-2.5, 2.5, (shape[0], 3, 6, 2)).astype(F32)
    if shape[2] == 1 and corners and padding == "reflection":
        grid[..., 1] = 0
    params = {"mode": mode, "padding_mode": padding, "align_corners": corners}
    check("GridSample", [x, grid], opset=opset, **params, **LOOSE)


def test_cubic_samples_at_the_elements_are_these(model, read, run, rng) -> None:
    x = rng.standard_normal((2, 3, 4, 5)).astype(F32)
    rows, columns = np.meshgrid(np.linspace(-1, 1, 4), np.linspace(-1, 1, 5), indexing="ij")
    grid = np.stack([np.stack([columns, rows], axis=-1)] * 2).astype(F32)
    node = helper.make_node("GridSample", ["x", "g"], ["y"], mode="cubic", align_corners=1)
    graph = read(model([node], {"x": x, "g": grid}, ["y"], opset=20))
    # places are off by a rounding of float32
    np.testing.assert_allclose(run(graph, {"x": x, "g": grid})["y"], x, atol=1e-5)


def test_samples_that_are_refused(model, read) -> None:
    x, grid = np.ones((1, 1, 3, 3, 3), F32), np.zeros((1, 2, 2, 2, 3), F32)
    cubic = helper.make_node("GridSample", ["x", "g"], ["y"], mode="cubic")
    with pytest.raises(
        UnsupportedOpError, match="unsupported mode 'cubic' for other than two spatial dimensions"
    ):
        read(model([cubic], {"x": x, "g": grid}, ["y"], opset=20))
    line = helper.make_node("GridSample", ["x", "g"], ["y"])
    given = {"x": x[0, 0], "g": np.zeros((1, 2, 1), F32)}
    with pytest.raises(UnsupportedOpError, match="unsupported input of rank 3; expected rank 4"):
        read(model([line], given, ["y"], opset=20))
    wrong = helper.make_node("GridSample", ["x", "g"], ["y"], mode="sinc")
    with pytest.raises(FrontendError, match="unsupported mode 'sinc' or padding_mode"):
        read(model([wrong], {"x": x, "g": grid}, ["y"], opset=20))


@pytest.mark.parametrize(
    ("size", "corners"),
    [
        ((2, 3, 4, 5), 0),
        ((2, 3, 4, 5), 1),
        ((1, 1, 1, 3), 0),
        ((2, 3, 2, 4, 5), 0),
        ((2, 3, 2, 4, 5), 1),
    ],
)
def test_affine_grid(check, rng, size, corners) -> None:
    axes = len(size) - 2
    theta = rng.standard_normal((size[0], axes, axes + 1)).astype(F32)
    check("AffineGrid", [theta], known=[np.array(size, I64)], opset=20, align_corners=corners)


def test_affine_grid_of_a_single_row(model, read) -> None:
    # The peers divide by 0 here; PyTorch, where the operator comes from, says 0.
    node = helper.make_node("AffineGrid", ["t", "s"], ["y"], align_corners=1)
    theta, size = np.ones((1, 2, 3), F32), np.array((1, 1, 1, 3), I64)
    graph = read(model([node], {"t": theta}, ["y"], {"s": size}, opset=20))
    (places,) = (t.values() for t in graph.tensors.values() if t.data is not None)
    np.testing.assert_array_equal(places, [[[-1, 0, 1], [0, 0, 1], [1, 0, 1]]])


def test_affine_grid_that_does_not_fit(model, read) -> None:
    node = helper.make_node("AffineGrid", ["t", "s"], ["y"])
    given, size = {"t": np.ones((1, 2, 3), F32)}, np.array((2, 3, 4, 5), I64)
    with pytest.raises(
        FrontendError, match=r"matrices \(1, 2, 3\) do not match the size \(2, 3, 4, 5\)"
    ):
        read(model([node], given, ["y"], {"s": size}, opset=20))


@pytest.mark.parametrize("shape", [(5, 6), (3, 9), (8, 3), (9, 11), (4, 5), (5, 7)])
def test_center_crop_pad(check, rng, shape) -> None:
    x = rng.standard_normal((5, 6)).astype(F32)
    check("CenterCropPad", [x], known=[np.array(shape, I64)], opset=18)
    check("CenterCropPad", [x], known=[np.array(shape[1:], I64)], opset=18, axes=[-2])


def test_center_crop_pad_that_does_not_fit(model, read) -> None:
    node = helper.make_node("CenterCropPad", ["x", "s"], ["y"])
    with pytest.raises(FrontendError, match=r"shape \(3,\) does not match the axes \(0, 1\)"):
        read(model([node], {"x": np.ones((2, 2), F32)}, ["y"], {"s": np.array([3])}, opset=18))
