"""RmsNorm written out: each spelling becomes one op; what is another thing, or read, stays."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.ir import DType, Scalar, ScaleOffset, Tensor, TensorKind
from dovetail_opset.passes import FuseLayerNorm, FuseRmsNorm

Evaluate = Callable[..., Any]
F32 = DType.FLOAT_32
SQUARES = ("power", "product")
ROOTS = ("divide", "rsqrt", "one over", "reciprocal", "power", "root by power")
GAMMAS = ("none", "after", "before", "on x", "on root")
# where the root divides there is no inverse for gamma to multiply
FORMS = [
    (root, gamma)
    for root in ROOTS
    for gamma in GAMMAS
    if gamma != "on root" or root not in ("divide", "root by power")
]


def spread(net: Any, x: Tensor, axes: list[int], square: str = "power") -> Tensor:
    """Return the mean of squares plus epsilon."""
    if square == "power":
        squared = net.step("ElementWisePower", x, net.number(2))
    else:
        squared = net.step("ElementWiseMultiply", x, x)
    mean = net.step("ReduceMean", squared, axes=axes, keep_dims=True)
    return net.step("ElementWiseAdd", net.number(1e-3), mean)


def normalized(
    net: Any, axes: list[int], *, square: str = "power", root: str = "divide", gamma: str = "none"
) -> Tensor:
    x = net.x
    plus = spread(net, x, axes, square)
    factor = net.constant(*(n if i in axes else 1 for i, n in enumerate(x.shape)))
    if gamma == "on x":
        x = net.step("ElementWiseMultiply", factor, x)
    if root in ("divide", "root by power"):
        by_power = root == "root by power"
        below = (
            net.step("ElementWisePower", plus, net.number(0.5))
            if by_power
            else net.step("ElementWiseSquareRoot", plus)
        )
        y = net.step("ElementWiseDivide", x, below)
    else:
        above = net.inverse_root(plus, root)
        if gamma == "on root":
            above = net.step("ElementWiseMultiply", above, factor)
        y = net.step("ElementWiseMultiply", x, above)
    if gamma in ("after", "before"):
        pair = (y, factor) if gamma == "after" else (factor, y)
        y = net.step("ElementWiseMultiply", *pair)
    return y


@pytest.mark.parametrize("square", SQUARES)
@pytest.mark.parametrize(("root", "gamma"), FORMS)
def test_each_spelling_fuses(
    net: Any, evaluate: Evaluate, square: str, root: str, gamma: str
) -> None:
    y = normalized(net, [3], square=square, root=root, gamma=gamma)
    assert net.check(y, FuseRmsNorm(), evaluate) == ["RmsNorm"]
    (node,) = net.graph.nodes
    assert node.params["epsilon"] == Scalar(F32, float(np.float32(1e-3)))
    assert len(node.inputs) == 1 + (gamma != "none")


@pytest.mark.parametrize("axes", [[3], [1, 3], [1]])
@pytest.mark.parametrize("gamma", GAMMAS)
def test_gamma_and_beta_lie_over_the_axes(
    net: Any, evaluate: Evaluate, axes: list[int], gamma: str
) -> None:
    y = normalized(net, axes, root="rsqrt", gamma=gamma)
    beta = net.constant(*(n if i in axes else 1 for i, n in enumerate(net.x.shape)))
    y = net.step("ElementWiseAdd", y, beta)
    assert net.check(y, FuseRmsNorm(), evaluate) == ["RmsNorm"]


def test_a_factor_that_varies_elsewhere_stays(net: Any, evaluate: Evaluate) -> None:
    y = net.step("ElementWiseMultiply", normalized(net, [3]), net.constant(5, 1))
    assert net.check(y, FuseRmsNorm(), evaluate) == ["RmsNorm", "ElementWiseMultiply"]


def test_an_updateable_gamma_stays_a_factor(net: Any, evaluate: Evaluate) -> None:
    gamma = net.constant(4)
    y = net.step("ElementWiseMultiply", normalized(net, [3], root="rsqrt"), gamma)
    gamma.kind = TensorKind.UPDATEABLE_STATIC
    assert net.check(y, FuseRmsNorm(), evaluate) == ["RmsNorm", "ElementWiseMultiply"]
    assert gamma in net.graph.nodes[-1].inputs


def test_an_updateable_epsilon_keeps_it_written_out(net: Any) -> None:
    normalized(net, [3])
    net.graph.nodes[2].inputs[0].kind = TensorKind.UPDATEABLE_STATIC
    net.untouched(FuseRmsNorm())


@pytest.mark.parametrize("which", range(4))
def test_a_part_that_is_read_keeps_it_written_out(net: Any, which: int) -> None:
    normalized(net, [3]).kind = TensorKind.APP_READ
    net.graph.nodes[which].outputs[0].kind = TensorKind.APP_READ
    net.untouched(FuseRmsNorm())


def test_a_part_with_a_range_of_its_own_keeps_it_written_out(net: Any) -> None:
    normalized(net, [3])
    net.graph.nodes[1].outputs[0].encoding = ScaleOffset(0.25)
    net.untouched(FuseRmsNorm())


def test_what_only_resembles_it_stays(net: Any) -> None:
    x = net.x
    other = net.step("Relu", x)
    plus = spread(net, x, [3])
    elsewhere = net.step("ElementWiseDivide", other, net.step("ElementWiseSquareRoot", plus))
    upside_down = net.step(
        "ElementWiseDivide", net.step("ElementWiseSquareRoot", spread(net, x, [3])), x
    )
    cubed = net.step("ElementWisePower", x, net.number(3))
    mean = net.step("ReduceMean", cubed, axes=[3], keep_dims=True)
    third = net.step("ElementWiseAdd", mean, net.number(1e-3))
    odd = net.step("ElementWiseMultiply", x, net.step("ElementWiseRsqrt", third))
    wide = net.step(
        "ElementWiseMultiply",
        net.step("ElementWiseRsqrt", spread(net, x, [3])),
        net.constant(5, 1),
    )
    by_row = net.step("ElementWiseMultiply", wide, x)
    for y in (elsewhere, upside_down, odd, by_row):
        y.kind = TensorKind.APP_READ
    net.untouched(FuseRmsNorm())


def test_a_half_float_stays_written_out(net: Any) -> None:
    # RmsNorm would round once where the parts round six times
    net.graph.remove_tensor(net.x)
    net.x = net.graph.add_tensor(Tensor("x", DType.FLOAT_16, (2, 4), TensorKind.APP_WRITE))
    squared = net.step("ElementWiseMultiply", net.x, net.x)
    mean = net.step("ReduceMean", squared, axes=[1], keep_dims=True)
    epsilon = net.graph.add_tensor(Tensor.static("eps", np.array(1e-3, np.float16)))
    root = net.step("ElementWiseRsqrt", net.step("ElementWiseAdd", mean, epsilon))
    net.step("ElementWiseMultiply", net.x, root)
    net.untouched(FuseRmsNorm())


def test_a_layer_norm_is_taken_whole(net: Any, evaluate: Evaluate) -> None:
    mean = net.step("ReduceMean", net.x, axes=[3], keep_dims=True)
    centered = net.step("ElementWiseSubtract", net.x, mean)
    root = net.step("ElementWiseSquareRoot", spread(net, centered, [3]))
    y = net.step("ElementWiseDivide", centered, root)
    assert net.check(y, FuseLayerNorm(), evaluate) == ["LayerNorm"]
    net.untouched(FuseRmsNorm())
