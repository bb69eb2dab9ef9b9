"""Operators that take several ops: Fourier transforms, running products, unpooling and others."""

from __future__ import annotations

import math

import numpy as np
import pytest
from onnx import helper

from dovetail.errors import FrontendError, UnsupportedOpError

F32 = np.float32


@pytest.fixture
def evaluated(model, read, evaluate):
    """Run one node; what is `known` is a constant."""

    def run(op_type, feeds, known=None, opset=26, order=None, **attributes):
        names = order or [*feeds, *(known or {})]
        node = helper.make_node(op_type, names, ["y"], **attributes)
        return evaluate(read(model([node], feeds, ["y"], known, opset=opset)), feeds)["y"]

    return run


@pytest.mark.parametrize("length", [None, 4, 9])
@pytest.mark.parametrize("axis", [0, 1, -2])
def test_transforms_of_complex_signals(evaluated, rng, axis, length) -> None:
    x = rng.normal(size=(3, 6, 5, 2)).astype(F32)
    known = {"axis": np.array(axis)} | ({} if length is None else {"n": np.array(length)})
    order = ["x", "" if length is None else "n", "axis"]
    at = axis if axis >= 0 else axis + 4
    for inverse, transform in ((0, np.fft.fft), (1, np.fft.ifft)):
        found = evaluated("DFT", {"x": x}, known, order=order, inverse=inverse)
        wanted = transform(x[..., 0] + 1j * x[..., 1], n=length, axis=at)
        # the sums are those of float64, so that rounding to float32 is all
        np.testing.assert_allclose(found, np.stack([wanted.real, wanted.imag], -1), 1e-6, 1e-6)


@pytest.mark.parametrize("count", [1, 7, 8])
def test_halves_of_the_transforms_of_real_signals(evaluated, rng, count) -> None:
    x = rng.normal(size=(2, count, 1)).astype(F32)
    found = evaluated("DFT", {"x": x}, opset=17, onesided=1)
    wanted = np.fft.rfft(x[..., 0], axis=1)
    np.testing.assert_allclose(found, np.stack([wanted.real, wanted.imag], -1), 1e-6, 1e-6)
    known = {"n": np.array(count)}
    back = evaluated("DFT", {"x": found}, known, opset=17, onesided=1, inverse=1)
    np.testing.assert_allclose(back, x, 1e-5, 1e-6)


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_running_products(evaluated, rng, count, exclusive, reverse) -> None:
    x = rng.uniform(0.5, 1.5, (2, count, 3)).astype(F32)
    known = {"axis": np.array(1)}
    found = evaluated("CumProd", {"x": x}, known, exclusive=exclusive, reverse=reverse)
    wanted = np.ones_like(x)
    for i in range(count):
        last = i if exclusive else i + 1
        part = x[:, count - last :] if reverse else x[:, :last]
        wanted[:, count - 1 - i if reverse else i] = part.prod(1)
    np.testing.assert_allclose(found, wanted, 1e-5)


def test_running_products_of_nothing(evaluated) -> None:
    assert evaluated("CumProd", {"x": np.zeros((2, 0), F32)}, {"a": np.array(1)}).shape == (2, 0)


@pytest.mark.parametrize("known", [True, False])
def test_maxima_put_back(check, rng, known) -> None:
    x = rng.normal(size=(2, 3, 2, 2)).astype(F32)
    planes = np.arange(6).reshape(2, 3, 1, 1) * 16
    places = planes + np.array([[5, 7], [12, 10]])
    inputs = {"kernel_shape": [2, 2], "strides": [2, 2], "opset": 11}
    if known:
        check("MaxUnpool", [x], known=[places], **inputs)
    else:
        check("MaxUnpool", [x, places], **inputs)


def test_maxima_put_into_more(evaluated) -> None:
    x, places = np.ones((1, 1, 1, 2), F32), np.array([[[[5, 2]]]])
    size = {"n": np.array([1, 1, 3, 5])}
    found = evaluated(
        "MaxUnpool", {"x": x, "i": places}, size, 22, kernel_shape=[2, 2], strides=[2, 2]
    )
    wanted = np.zeros((1, 1, 3, 5), F32)
    wanted[0, 0, 1, 1] = wanted[0, 0, 0, 2] = 1
    np.testing.assert_array_equal(found, wanted)


def test_erf_near_and_far(evaluated) -> None:
    near = np.linspace(-0.51, 0.51, 103)
    x = np.concatenate([near, near * 20, [0, 1e-20, -np.inf, np.inf]]).astype(F32)
    found = evaluated("Erf", {"x": x}, opset=13)
    wanted = np.array([math.erf(v) for v in x])
    # a difference from 1 of two float32 numbers, where erf is at least 0.52
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_shrink(check) -> None:
    x = np.array([-3, -1.5, -1, 0, 1, 1.5, 2, np.inf], F32)
    check("Shrink", [x], opset=9, lambd=1.5, bias=0.5)


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_updates_of_a_cache(evaluated, rng, mode) -> None:
    cache, update = rng.normal(size=(2, 3, 4, 5)), rng.normal(size=(2, 3, 2, 5))
    feeds = {"c": cache.astype(F32), "u": update.astype(F32), "i": np.array([1, 3])}
    if mode == "linear":
        feeds["i"] = np.array([1, 2])
    found = evaluated("TensorScatter", feeds, mode=mode)
    wanted = feeds["c"].copy()
    for item, first in enumerate(feeds["i"]):
        for step in range(2):
            wanted[item, :, (first + step) % 4] = feeds["u"][item, :, step]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("update", "places", "fault"),
    [
        ((2, 3), (2,), r"update \(2, 3\) does not match the cache \(2, 3, 4, 5\)"),
        ((2, 3, 5, 5), (2,), r"update \(2, 3, 5, 5\) does not match the cache \(2, 3, 4, 5\)"),
        ((2, 1, 2, 5), (2,), r"update \(2, 1, 2, 5\) does not match the cache \(2, 3, 4, 5\)"),
        ((2, 3, 2, 5), (3,), r"write indices \(3,\) do not match the cache \(2, 3, 4, 5\)"),
    ],
)
def test_updates_that_do_not_fit_their_cache(evaluated, update, places, fault) -> None:
    feeds = {"c": np.zeros((2, 3, 4, 5), F32), "u": np.zeros(update, F32)}
    with pytest.raises(FrontendError, match=fault):
        evaluated("TensorScatter", feeds | {"i": np.zeros(places, np.int64)})


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("masked", [True, False])
def test_deformed_convolutions(check, rng, masked, group) -> None:
    x = rng.normal(size=(2, 4, 6, 5)).astype(F32)
    w = rng.normal(size=(6, 4 // group, 3, 2)).astype(F32)
    offsets = rng.normal(0, 1.5, (2, 2 * 6 * 2, 3, 4)).astype(F32)
    mask = rng.uniform(size=(2, 2 * 6, 3, 4)).astype(F32) if masked else None
    bias = rng.normal(size=6).astype(F32)
    check(
        "DeformConv",
        [x, w, offsets, bias, mask],
        opset=19,
        # places are computed from -1 to 1 here, in elements there
        rtol=1e-4,
        atol=1e-4,
        group=group,
        offset_group=2,
        pads=[1, 0, 1, 0],
        strides=[2, 1],
        kernel_shape=[3, 2],
    )


def test_offsets_that_do_not_fit(evaluated) -> None:
    feeds = {n: np.zeros(s, F32) for n, s in (("x", (1, 1, 4, 4)), ("w", (1, 1, 2, 2)))}
    with pytest.raises(
        FrontendError, match=r"offsets must have shape \(1, 8, 3, 3\), got \(1, 8, 4, 4\)"
    ):
        evaluated("DeformConv", feeds | {"o": np.zeros((1, 8, 4, 4), F32)}, opset=22)


def test_integers_to_float_powers(check) -> None:
    base, exponent = np.array([1, 2, 3, -4]), np.array([0, 2.5, 3, 2], F32)
    check("Pow", [base, exponent], opset=15)


def test_padding_that_repeats_the_input(check, rng) -> None:
    x = rng.normal(size=(2, 3)).astype(F32)
    with pytest.raises(UnsupportedOpError, match="pads 'x1' is computed"):
        check("Pad", [x, np.array([1, 4, 0, 5])], opset=19, mode="wrap")
    graph = check("Pad", [x], known=[np.array([1, 2, 0, 3])], opset=19, mode="wrap")
    assert {n.op_type for n in graph.nodes} == {"Gather"}


@pytest.mark.parametrize(("axis", "shape"), [(1, (3,)), (0, (2, 3)), (None, (3, 4))])
def test_broadcasting_before_opset_7(model, read, evaluate, rng, axis, shape) -> None:
    x, y = rng.normal(size=(2, 3, 4)).astype(F32), rng.normal(size=shape).astype(F32)
    given = {"broadcast": 1} | ({} if axis is None else {"axis": axis})
    for op_type, compute in (("Add", np.add), ("Div", np.divide), ("Pow", np.float_power)):
        x, y = np.abs(x), np.abs(y)
        node = helper.make_node(op_type, ["x", "y"], ["z"], **given)
        found = evaluate(read(model([node], {"x": x, "y": y}, ["z"], opset=6)), {"x": x, "y": y})
        first = 3 - len(shape) if axis is None else axis
        aligned = y.reshape(*shape, *(1,) * (3 - first - len(shape)))
        np.testing.assert_allclose(found["z"], compute(x, aligned), 1e-6)


def test_training_in_old_versions(model, read) -> None:
    feeds = {"x": np.ones((1, 2, 3), F32)}
    constants = {n: np.ones(2, F32) for n in "smbv"}
    node = helper.make_node("BatchNormalization", ["x", *"smbv"], ["y"], is_test=0)
    with pytest.raises(UnsupportedOpError, match="training mode"):
        read(model([node], feeds, ["y"], constants, opset=6))
