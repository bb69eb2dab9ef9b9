"""LayerNorm written out as TensorFlow, Flax and others do: each spelling becomes one op."""

from collections.abc import Callable
from typing import Any

import pytest

from dovetail.ir import Scalar, ScaleOffset, Tensor, TensorKind
from dovetail.ir.dtypes import DType
from dovetail_opset.passes import FuseLayerNorm

Evaluate = Callable[..., Any]
VARIANCES = ("of centered", "power", "of squares", "clipped", "clipped first", "by relu")
ROOTS = ("rsqrt", "one over", "reciprocal", "power", "divide")
# How x, its mean, the scale (with gamma) and beta meet.
FORMS = ("centered", "apart", "apart, beta first", "minus", "negated after")


def mean(net: Any, x: Tensor, axes: list[int]) -> Tensor:
    found: Tensor = net.step("ReduceMean", x, axes=axes, keep_dims=True)
    return found


def multiply(net: Any, a: Tensor, b: Tensor) -> Tensor:
    found: Tensor = net.step("ElementWiseMultiply", a, b)
    return found


def variance(
    net: Any, spelling: str, centered: Tensor | None, middle: Tensor, axes: list[int]
) -> Tensor:
    if spelling == "power" and centered is not None:
        return mean(net, net.step("ElementWisePower", centered, net.number(2)), axes)
    if spelling == "of centered" and centered is not None:
        return mean(net, multiply(net, centered, centered), axes)
    squares = mean(net, multiply(net, net.x, net.x), axes)
    found: Tensor = net.step("ElementWiseSubtract", squares, multiply(net, middle, middle))
    if spelling == "by relu":
        return net.step("Relu", found)  # type: ignore[no-any-return]
    if spelling != "of squares":
        pair = (found, net.number(0)) if spelling == "clipped" else (net.number(0), found)
        return net.step("ElementWiseMaximum", *pair)  # type: ignore[no-any-return]
    return found


def normalized(
    net: Any,
    *,
    spelling: str = "of centered",
    root: str = "rsqrt",
    form: str = "centered",
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    axes: list[int] | None = None,
) -> Tensor:
    """Return a norm; gamma is part of the scale, and beta of all forms but "centered"."""
    axes = axes or [3]
    x, middle = net.x, mean(net, net.x, axes)
    needs_centered = form == "centered" or spelling in ("of centered", "power")
    centered = net.step("ElementWiseSubtract", x, middle) if needs_centered else None
    found = variance(net, spelling, centered, middle, axes)
    spread = net.step("ElementWiseAdd", found, net.number(1e-3))
    if root == "divide":
        below = net.step("ElementWiseSquareRoot", spread)
        return net.step("ElementWiseDivide", centered, below)  # type: ignore[no-any-return]
    scale = net.inverse_root(spread, root)
    if gamma is not None:
        scale = multiply(net, scale, gamma)
    if form == "centered" and centered is not None:
        return multiply(net, centered, scale)
    if form == "minus":
        shift = net.step("ElementWiseSubtract", beta, multiply(net, middle, scale))
    elif form == "negated after":
        shift = net.step("ElementWiseNeg", multiply(net, middle, scale))
    else:
        shift = multiply(net, net.step("ElementWiseNeg", middle), scale)
    if beta is not None and form != "minus":
        pair = (beta, shift) if form == "apart, beta first" else (shift, beta)
        shift = net.step("ElementWiseAdd", *pair)
    return net.step("ElementWiseAdd", multiply(net, x, scale), shift)  # type: ignore[no-any-return]


@pytest.mark.parametrize("spelling", VARIANCES)
@pytest.mark.parametrize("root", ROOTS)
def test_each_variance_and_root(net: Any, evaluate: Evaluate, spelling: str, root: str) -> None:
    y = normalized(net, spelling=spelling, root=root)
    y = net.step("ElementWiseAdd", multiply(net, y, net.constant(4)), net.constant(4))
    assert net.check(y, FuseLayerNorm(), evaluate) == ["LayerNorm"]
    (node,) = net.graph.nodes
    assert len(node.inputs) == 3
    epsilon = node.params["epsilon"]
    assert isinstance(epsilon, Scalar)
    assert (epsilon.dtype, epsilon.value) == (DType.FLOAT_32, pytest.approx(1e-3))


@pytest.mark.parametrize(
    ("form", "has_beta"),
    [(form, has) for form in FORMS for has in (True, False) if has or form != "minus"],
)
@pytest.mark.parametrize("has_gamma", [True, False])
@pytest.mark.parametrize("spelling", ["of centered", "clipped"])
def test_each_form(
    net: Any, evaluate: Evaluate, form: str, has_gamma: bool, has_beta: bool, spelling: str
) -> None:
    gamma = net.constant(1, 1, 4) if has_gamma else None
    beta = net.constant(4) if has_beta else None
    y = normalized(net, spelling=spelling, form=form, gamma=gamma, beta=beta)
    if form == "centered" and beta is not None:
        y = net.step("ElementWiseAdd", y, beta)
    assert net.check(y, FuseLayerNorm(), evaluate) == ["LayerNorm"]
    given = [t is not None for t in (*net.graph.nodes[0].inputs, None, None)[1:3]]
    assert given == [has_gamma, has_beta]


def test_a_scale_of_two_results_stays(net: Any) -> None:
    y = normalized(net, form="apart", gamma=net.constant(4), beta=net.constant(4))
    y.kind = TensorKind.APP_READ
    scale = next(n for n in net.graph.nodes if n.op_type == "ElementWiseRsqrt")
    net.step("Relu", scale.outputs[0]).kind = TensorKind.APP_READ
    net.untouched(FuseLayerNorm())


def test_a_beta_that_varies_elsewhere_stays(net: Any) -> None:
    y = normalized(net, form="apart", gamma=net.constant(4), beta=net.constant(5, 1))
    y.kind = TensorKind.APP_READ
    net.untouched(FuseLayerNorm())


@pytest.mark.parametrize("axes", [[2, 3], [1]])
@pytest.mark.parametrize(("spelling", "root"), [("of squares", "divide"), ("of centered", "rsqrt")])
def test_other_axes_stay_written_out(net: Any, axes: list[int], spelling: str, root: str) -> None:
    y = normalized(net, spelling=spelling, root=root, axes=axes)
    y.kind = TensorKind.APP_READ
    net.untouched(FuseLayerNorm())


@pytest.mark.parametrize("axes", [[3], [2, 3], [1]])
@pytest.mark.parametrize("spelling", ["of centered", "power"])
def test_the_plain_spelling_fuses_over_any_axes(
    net: Any, evaluate: Evaluate, axes: list[int], spelling: str
) -> None:
    y = normalized(net, spelling=spelling, root="divide", axes=axes)
    sizes = [n if i in axes else 1 for i, n in enumerate(net.x.shape)]
    y = net.step("ElementWiseAdd", multiply(net, net.constant(*sizes), y), net.constant(*sizes[1:]))
    assert net.check(y, FuseLayerNorm(), evaluate) == ["LayerNorm"]


def test_a_beta_alone(net: Any, evaluate: Evaluate) -> None:
    y = net.step("ElementWiseAdd", normalized(net, root="divide"), net.constant(4))
    assert net.check(y, FuseLayerNorm(), evaluate) == ["LayerNorm"]
    assert net.graph.nodes[0].inputs[1] is None


def test_a_factor_that_varies_elsewhere_stays(net: Any, evaluate: Evaluate) -> None:
    y = multiply(net, normalized(net, root="divide"), net.constant(5, 1))
    assert net.check(y, FuseLayerNorm(), evaluate) == ["LayerNorm", "ElementWiseMultiply"]


def test_a_part_that_is_read_keeps_it_written_out(net: Any) -> None:
    normalized(net, root="divide").kind = TensorKind.APP_READ
    root = next(n for n in net.graph.nodes if n.op_type == "ElementWiseSquareRoot")
    net.step("Relu", root.outputs[0]).kind = TensorKind.APP_READ
    net.untouched(FuseLayerNorm())


def test_a_part_with_a_range_of_its_own_keeps_it_written_out(net: Any) -> None:
    normalized(net, root="divide")
    net.graph.nodes[3].outputs[0].encoding = ScaleOffset(0.25)
    net.untouched(FuseLayerNorm())


def test_means_over_different_axes_stay(net: Any) -> None:
    centered = net.step("ElementWiseSubtract", net.x, mean(net, net.x, [2]))
    found = mean(net, multiply(net, centered, centered), [3])
    below = net.step("ElementWiseSquareRoot", net.step("ElementWiseAdd", found, net.number(9)))
    net.step("ElementWiseDivide", centered, below).kind = TensorKind.APP_READ
    net.untouched(FuseLayerNorm())


def test_another_mean_stays(net: Any) -> None:
    x = net.x
    centered = net.step("ElementWiseSubtract", x, mean(net, x, [3]))
    squares = mean(net, multiply(net, x, x), [3])
    other = mean(net, net.step("Relu", x), [3])
    found = net.step("ElementWiseSubtract", squares, multiply(net, other, other))
    below = net.step("ElementWiseSquareRoot", net.step("ElementWiseAdd", found, net.number(9)))
    net.step("ElementWiseDivide", centered, below).kind = TensorKind.APP_READ
    net.untouched(FuseLayerNorm())
