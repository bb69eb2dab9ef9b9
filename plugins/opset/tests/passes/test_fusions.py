"""Fusions: one node less each, the same values, and hands off what others need."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.ir import DType, ScaleOffset, Spec, TensorKind, run_passes
from dovetail_opset.build import add, static
from dovetail_opset.passes import FoldBatchnorm, FoldFlatten, FuseBias, Pipeline

Evaluate = Callable[..., Any]
F32 = DType.FLOAT_32
PADS = [(0, 0), (0, 0)]
CONVOLUTIONS = [
    *("Conv1d", "Conv2d", "Conv3d", "DepthWiseConv1d", "DepthWiseConv2d"),
    *("TransposeConv1d", "TransposeConv2d", "TransposeConv3d"),
]
LAYERS = [*CONVOLUTIONS, "FullyConnected", "MatMul"]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shift", [True, False])
@pytest.mark.parametrize("op_type", LAYERS)
def test_batchnorm_folds(
    net: Any, evaluate: Evaluate, op_type: str, bias: bool, shift: bool
) -> None:
    y = net.layer(op_type, bias=bias)
    c = y.shape[-1]
    y = net.step("Batchnorm", y, *(net.constant(c) for _ in range(1 + shift)))
    assert net.check(y, FoldBatchnorm(), evaluate) == [op_type]
    assert net.graph.nodes[0].sources == ("layer", "step")


def test_weights_are_rounded_once_when_batchnorm_folds(net: Any) -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, (4, 1000, 2), np.uint32)
    values = np.where(bits & 0x7F800000 == 0x7F800000, 0, bits).view(np.float32)
    weight, factor = static(net.graph, "w", values[..., 0]), static(net.graph, "f", values[0, :, 1])
    y = add(net.graph, "MatMul", [net.x, weight], name="layer")
    net.step("Batchnorm", y, factor).kind = TensorKind.APP_READ
    assert run_passes(net.graph, [FoldBatchnorm()])
    with np.errstate(over="ignore", under="ignore"):
        wanted = (values[..., 0].astype(float) * values[0, :, 1]).astype(np.float32)
    found = net.graph.nodes[0].inputs[1].values()
    np.testing.assert_array_equal(found.view(np.uint32), wanted.view(np.uint32))


def test_weights_that_overflow_when_batchnorm_folds_are_infinite(net: Any) -> None:
    large = np.full((4, 4), 1e30, np.float32)
    weight, factor = static(net.graph, "w", large), static(net.graph, "f", large[0])
    y = add(net.graph, "MatMul", [net.x, weight], name="layer")
    net.step("Batchnorm", y, factor).kind = TensorKind.APP_READ
    assert run_passes(net.graph, [FoldBatchnorm()])
    (layer,) = net.graph.nodes
    assert np.isinf(layer.inputs[1].values()).all()


@pytest.mark.parametrize("op_type", ["MatMul", "Conv2d"])
def test_batchnorm_folds_before_a_reshape_that_keeps_the_channels(
    net: Any, evaluate: Evaluate, op_type: str
) -> None:
    y = net.layer(op_type)
    channels = y.shape[-1]
    flat = Spec(F32, (math.prod(y.shape) // channels, channels))
    y = add(net.graph, "Reshape", [y], name="flat", spec=flat)
    y = net.step("Batchnorm", y, net.constant(channels), net.constant(channels))
    assert net.check(y, FoldBatchnorm(), evaluate) == [op_type, "Reshape"]
    assert net.graph.nodes[0].sources == ("layer", "step")


def test_batchnorm_after_a_reshape_of_the_channels_stays(net: Any) -> None:
    y = net.layer("MatMul")
    y = add(net.graph, "Reshape", [y], name="flat", spec=Spec(F32, (math.prod(y.shape) // 3, 3)))
    net.step("Batchnorm", y, net.constant(3)).kind = TensorKind.APP_READ
    net.untouched(FoldBatchnorm())


@pytest.mark.parametrize("reason", ["transposed", "tied"])
def test_batchnorm_after_other_matrices_stays(net: Any, reason: str) -> None:
    weight = net.constant(4, 4)
    params = {"transpose_in1": True} if reason == "transposed" else {}
    y = add(net.graph, "MatMul", [net.x, weight], name="layer", **params)
    if reason == "tied":
        add(net.graph, "Relu", [weight], name="other").kind = TensorKind.APP_READ
    net.step("Batchnorm", y, net.constant(y.shape[-1])).kind = TensorKind.APP_READ
    net.untouched(FoldBatchnorm())


@pytest.mark.parametrize("each", [3, 1])
@pytest.mark.parametrize("bias", [True, False])
def test_batchnorm_folds_into_transposed_groups(
    net: Any, evaluate: Evaluate, each: int, bias: bool
) -> None:
    # weights of (..., inputs of both groups, outputs of one): those of 1 would broadcast wrongly
    inputs = [net.x, net.constant(2, 2, 4, each), *([net.constant(2 * each)] if bias else [])]
    params = {"stride": (2, 1), "pad_amount": PADS, "group": 2}
    y = add(net.graph, "TransposeConv2d", inputs, name="layer", **params)
    y = net.step("Batchnorm", y, net.constant(2 * each), net.constant(2 * each))
    assert net.check(y, FoldBatchnorm(), evaluate) == ["TransposeConv2d"]


def test_scale_layers_join_the_batchnorm_before_them(net: Any, evaluate: Evaluate) -> None:
    y = net.step("Batchnorm", net.x, net.constant(4))
    y = net.step("ElementWiseMultiply", net.constant(4), y)
    y = net.step("ElementWiseAdd", y, net.constant(4))
    y = net.step("Batchnorm", y, net.constant(4), net.constant(4))
    # the addition stands between the two batchnorms
    steps = Pipeline("affine", (FoldBatchnorm(), FuseBias(), FoldBatchnorm()))
    assert net.check(y, steps, evaluate) == ["Batchnorm"]


@pytest.mark.parametrize("op_type", ["ElementWiseMultiply", "ElementWiseAdd"])
def test_constants_that_add_an_axis_stay(net: Any, op_type: str) -> None:
    y = net.layer("Conv2d")
    net.step(op_type, y, net.constant(1, 1, 1, 1, y.shape[-1]))
    net.untouched(FoldBatchnorm())
    net.untouched(FuseBias())


@pytest.mark.parametrize("op_type", ["Batchnorm", "ElementWiseAdd"])
def test_a_range_of_its_own_keeps_a_result(net: Any, op_type: str) -> None:
    y = net.layer("Conv2d")
    net.step(op_type, y, net.constant(y.shape[-1])).encoding = ScaleOffset(0.25)
    net.untouched(FoldBatchnorm())
    net.untouched(FuseBias())


def test_an_updateable_bias_stays(net: Any) -> None:
    y = net.layer("Conv2d")
    net.graph.node("layer").inputs[2].kind = TensorKind.UPDATEABLE_STATIC
    net.step("ElementWiseAdd", y, net.constant(y.shape[-1]))
    net.untouched(FuseBias())


def test_batchnorm_before_a_layer_stays(net: Any) -> None:
    # with padding the shift would be missing at the border
    x = net.step("Batchnorm", net.x, net.constant(4), net.constant(4))
    params = {"stride": (1, 1), "pad_amount": [(1, 1), (1, 1)]}
    add(net.graph, "Conv2d", [x, net.constant(3, 3, 4, 6)], name="layer", **params)
    net.untouched(FoldBatchnorm())
    net.untouched(FuseBias())


@pytest.mark.parametrize("shape", [(6,), (1, 1, 1, 6), (1,), ()])
@pytest.mark.parametrize("first", [True, False])
def test_multiply_by_channel_folds(
    net: Any, evaluate: Evaluate, shape: tuple[int, ...], first: bool
) -> None:
    y = net.layer("Conv2d")
    factor = net.constant(*shape)
    y = net.step("ElementWiseMultiply", *((factor, y) if first else (y, factor)))
    assert net.check(y, FoldBatchnorm(), evaluate) == ["Conv2d"]


@pytest.mark.parametrize("op_type", LAYERS)
@pytest.mark.parametrize(("name", "first"), [("Add", True), ("Add", False), ("Subtract", False)])
@pytest.mark.parametrize("bias", [True, False])
def test_bias_fuses(
    net: Any, evaluate: Evaluate, op_type: str, name: str, first: bool, bias: bool
) -> None:
    y = net.layer(op_type, bias=bias)
    shift = net.constant(y.shape[-1])
    y = net.step(f"ElementWise{name}", *((shift, y) if first else (y, shift)))
    assert net.check(y, FuseBias(), evaluate) == [op_type]


def test_fusions_leave_what_others_need(net: Any) -> None:
    y = net.layer("Conv2d")
    scaled = net.step("Batchnorm", y, net.constant(6))
    shifted = net.step("ElementWiseAdd", y, net.constant(6))
    scaled.kind = shifted.kind = TensorKind.APP_READ
    net.untouched(FoldBatchnorm())
    net.untouched(FuseBias())


@pytest.mark.parametrize("which", [0, 1, 2])
def test_updateable_tensors_are_not_folded(net: Any, which: int) -> None:
    y = net.layer("Conv2d")
    factor = net.constant(6)
    layer = net.graph.nodes[0]
    tuned = [layer.inputs[1], layer.inputs[2], factor][which]
    assert tuned is not None
    tuned.kind = TensorKind.UPDATEABLE_STATIC
    net.step("Batchnorm", y, factor).kind = TensorKind.APP_READ
    net.untouched(FoldBatchnorm())


def test_constants_that_vary_elsewhere_or_reverse_the_difference_stay(net: Any) -> None:
    rows = net.step("ElementWiseAdd", net.layer("Conv2d"), net.constant(4, 1))
    layer = net.layer("FullyConnected")
    reverse = net.step("ElementWiseSubtract", net.constant(6), layer)
    wider = net.step("ElementWiseMultiply", net.layer("MatMul"), net.constant(1, 2, 1, 1, 6))
    for y in (rows, reverse, wider):
        y.kind = TensorKind.APP_READ
    net.untouched(FuseBias())
    net.untouched(FoldBatchnorm())


@pytest.mark.parametrize("perm", [(0, 3, 1, 2), (0, 2, 1, 3), (0, 3, 2, 1)])
def test_flatten_folds_into_weights(net: Any, evaluate: Evaluate, perm: tuple[int, ...]) -> None:
    turned = net.step("Transpose", net.x, perm=perm)
    shape = net.constant(2, 60).spec
    flat = net.step("Reshape", turned, spec=shape)
    y = net.step("FullyConnected", flat, net.constant(7, 60), net.constant(7))
    assert net.check(y, FoldFlatten(), evaluate) == ["Reshape", "FullyConnected"]


def test_flatten_stays_where_rows_mix(net: Any) -> None:
    turned = net.step("Transpose", net.x, perm=(1, 0, 2, 3))
    flat = net.step("Reshape", turned, spec=net.constant(3, 40).spec)
    net.step("FullyConnected", flat, net.constant(7, 40)).kind = TensorKind.APP_READ
    net.untouched(FoldFlatten())
