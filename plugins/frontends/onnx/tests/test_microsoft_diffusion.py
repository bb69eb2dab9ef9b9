"""Operators into which ONNX Runtime fuses diffusion models; it has no kernels of them for the CPU.

The expected values are their definitions in NumPy.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from microsoft_cases import case
from onnx import helper

from dovetail.errors import FrontendError, UnsupportedOpError

F32 = np.float32
RNG = np.random.default_rng(7)
# float32 sums of up to 50 products or elements
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
erf = np.vectorize(math.erf, otypes=[F32])


def data(*shape):
    return RNG.standard_normal(shape).astype(F32)


def outputs(read, evaluate, given):
    return list(evaluate(read(given.model), given.feeds).values())


def silu(x):
    return x / (1 + np.exp(-x))


def normalized(x, gamma, beta, groups, epsilon):
    """Return the group norm of (n, h, w, c)."""
    parts = x.reshape(x.shape[0], -1, groups, x.shape[-1] // groups).astype(np.float64)
    mean, var = (f(parts, axis=(1, 3), keepdims=True) for f in (np.mean, np.var))
    return ((parts - mean) / np.sqrt(var + epsilon)).reshape(x.shape) * gamma + beta


@pytest.mark.parametrize("activation", [0, 1])
@pytest.mark.parametrize("last", [0, 1])
def test_group_norm(read, evaluate, last, activation) -> None:
    x, gamma, beta = data(2, 4, 5, 6), data(6), data(6)
    fed = x if last else np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    given = {"groups": 3, "activation": activation, "epsilon": 0.1, "channels_last": last}
    (found,) = outputs(read, evaluate, case("GroupNorm", "", [fed, gamma, beta], **given))
    want = normalized(x, gamma, beta, 3, 0.1)
    want = silu(want) if activation else want
    np.testing.assert_allclose(found, want if last else want.transpose(0, 3, 1, 2), **CLOSE)


def test_group_norm_of_half_precision(read, evaluate) -> None:
    """Its factors are in single precision."""
    x, gamma, beta = data(1, 3, 3, 4).astype(np.float16), data(4), data(4)
    (found,) = outputs(
        read, evaluate, case("GroupNorm", "", [x, gamma, beta], groups=2, activation=0)
    )
    assert found.dtype == np.float16
    want = normalized(x.astype(F32), gamma, beta, 2, 1e-5)
    np.testing.assert_allclose(found, want, atol=0.02)  # some roundings of values up to 4


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("kind", ["image", "row", "flat row"])
@pytest.mark.parametrize("biased", [False, True])
def test_group_norm_of_a_sum(read, evaluate, biased, kind, last) -> None:
    x, gamma, beta, bias = data(2, 3, 5, 4), data(4), data(4), data(4)
    skip = data(2, 3, 5, 4) if kind == "image" else data(2, 1, 1, 4)
    total = x + skip + (bias if biased else 0)

    def laid_out(image):
        return image if last else np.ascontiguousarray(image.transpose(0, 3, 1, 2))

    fed = [laid_out(x), gamma, beta, skip.reshape(2, 4) if "flat" in kind else laid_out(skip)]
    given = {"groups": 2, "activation": 1, "channels_last": last, "outputs": 2}
    one = case("SkipGroupNorm", "", [*fed, *([bias] if biased else [])], **given)
    found = outputs(read, evaluate, one)
    want = silu(normalized(total, gamma, beta, 2, 1e-5))
    np.testing.assert_allclose(found[0], laid_out(want), **CLOSE)
    np.testing.assert_allclose(found[1], laid_out(total), **CLOSE)


@pytest.mark.parametrize("fused", [False, True])
def test_convolutions_of_channels_last(agree, read, evaluate, model, fused) -> None:
    """A Conv between transpositions is the peer, which runs on ONNX Runtime."""
    n = helper.make_node
    x, w, b, z = data(2, 7, 6, 4), data(6, 2, 3, 3), data(6), data(2, 4, 3, 6)
    attributes = {"group": 2, "strides": [2, 2], "pads": [1, 0, 1, 1]}
    nodes = [
        n("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        n("Conv", ["t", "w", "b"], ["c"], **attributes),
        n("Transpose", ["c"], ["s"], perm=[0, 2, 3, 1]),
    ]
    ends = [n("Add", ["s", "z"], ["a"]), n("Relu", ["a"], ["y"])]
    peer = model(
        [*nodes, *(ends if fused else [])],
        {"x": x, "z": z},
        ["y" if fused else "s"],
        {"w": w, "b": b},
    )
    graph = agree(peer, {"x": x, "z": z})
    want = evaluate(graph, {"x": x, "z": z})["y" if fused else "s"]
    if fused:
        given = case("NhwcFusedConv", "", [x, w, b, z], activation="Relu", **attributes)
    else:
        filters = np.ascontiguousarray(w.transpose(0, 2, 3, 1))
        given = case("NhwcConv", "", [x, filters, b], kernel_shape=[3, 3], **attributes)
    (found,) = outputs(read, evaluate, given)
    np.testing.assert_allclose(found, want, **CLOSE)


def test_a_split_before_gelu(read, evaluate) -> None:
    x, bias = data(2, 3, 8), data(8)
    (found,) = outputs(read, evaluate, case("BiasSplitGelu", "", [x, bias]))
    left, right = np.split(x + bias, 2, axis=-1)
    np.testing.assert_allclose(found, left * right * (1 + erf(right / np.sqrt(2))) / 2, **CLOSE)


def test_a_bias_and_a_residual(read, evaluate) -> None:
    x, bias, skip = data(2, 3, 4), data(4), data(2, 3, 4)
    (found,) = outputs(read, evaluate, case("BiasAdd", "", [x, bias, skip]))
    np.testing.assert_array_equal(found, x + bias + skip)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (case("BiasSplitGelu", "", [data(2, 3), data(3)]), r"input \(2, 3\) cannot be split"),
        (case("GroupNorm", "", [data(2, 3, 4)] * 3, groups=1, activation=0), "must have 4 axes"),
        (
            case("GroupNorm", "", [data(1, 2, 2, 4), data(3), data(4)], groups=2, activation=0),
            r"gamma \(3,\) does not match the 4 channels",
        ),
        (
            case("GroupNorm", "", [data(1, 2, 2, 4), data(4), data(4)], groups=3, activation=0),
            "4 channels cannot be split into 3 groups",
        ),
        (
            case("GroupNorm", "", [data(1, 2, 2, 4), data(4), data(4)], groups=2, activation=2),
            "unsupported activation 2",
        ),
        (
            case(
                "SkipGroupNorm",
                "",
                [data(2, 2, 2, 4), data(4), data(4), data(2, 3)],
                groups=2,
                activation=0,
            ),
            r"skip \(2, 3\) does not match the input \(2, 2, 2, 4\)",
        ),
        (
            case(
                "SkipGroupNorm",
                "",
                [data(2, 2, 2, 4), data(4), data(4), data(2, 4), data(2)],
                groups=2,
                activation=0,
            ),
            r"bias \(2,\) does not match the input \(2, 2, 2, 4\)",
        ),
        (case("NhwcConv", "", [data(1, 4, 4, 3), data(2, 2, 2, 5)]), "do not match an input of 3"),
    ],
)
def test_what_is_invalid(read, given, why) -> None:
    with pytest.raises(FrontendError, match=why):
        read(given.model)


def test_other_activations(read) -> None:
    given = case("NhwcFusedConv", "", [data(1, 4, 4, 3), data(2, 3, 2, 2)], activation="Gelu")
    with pytest.raises(UnsupportedOpError, match="unsupported activation 'Gelu'"):
        read(given.model)
