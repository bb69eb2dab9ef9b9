"""Division by the Euclidean norm written out: each spelling becomes L2Norm; others stay."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.ir import DType, Scalar, Tensor, TensorKind
from dovetail_opset.passes import FuseL2Norm

Evaluate = Callable[..., Any]
EPSILON = 1e-3


def normalized(
    net: Any,
    axes: list[int],
    *,
    square: str = "one op",
    root: str = "root",
    limit: float | None = EPSILON,
    repeats: bool = False,
    keep_dims: bool = True,
) -> Tensor:
    x, how = net.x, {"axes": axes, "keep_dims": keep_dims}
    if square == "one op":
        total = net.step("ReduceSumSquare", x, **how)
    elif square == "power":
        total = net.step("ReduceSum", net.step("ElementWisePower", x, net.number(2)), **how)
    else:
        total = net.step("ReduceSum", net.step("ElementWiseMultiply", x, x), **how)
    if root == "root":
        norm = net.step("ElementWiseSquareRoot", total)
    else:
        norm = net.step("ElementWisePower", total, net.number(0.5))
    if limit is not None:
        norm = net.step("ElementWiseMaximum", norm, net.number(limit))
    if repeats:
        norm = net.step(
            "Tile", norm, multiples=[n if i in axes else 1 for i, n in enumerate(x.shape)]
        )
    return net.step("ElementWiseDivide", x, norm)


@pytest.mark.parametrize("square", ["one op", "power", "product"])
@pytest.mark.parametrize("root", ["root", "power"])
@pytest.mark.parametrize("limit", [None, EPSILON])
@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("axes", [[3], [1], [1, 3]])
def test_each_spelling_fuses(
    net: Any,
    evaluate: Evaluate,
    square: str,
    root: str,
    limit: float,
    repeats: bool,
    axes: list[int],
) -> None:
    y = normalized(net, axes, square=square, root=root, limit=limit, repeats=repeats)
    assert net.check(y, FuseL2Norm(), evaluate) == ["L2Norm"]
    (node,) = net.graph.nodes
    assert node.params["epsilon"] == Scalar(DType.FLOAT_32, float(np.float32(limit or 0)))
    assert node.params["axes"].values().tolist() == axes


def squares(net: Any) -> Tensor:
    found: Tensor = net.step("ReduceSumSquare", net.x, axes=[3], keep_dims=True)
    return found


@pytest.mark.parametrize(
    "write",
    [
        lambda net, norm: net.step("ElementWiseDivide", net.step("Relu", net.x), norm),
        lambda net, norm: net.step("ElementWiseDivide", norm, net.x),
        lambda net, norm: net.step(
            "ElementWiseDivide", net.x, net.step("ElementWiseMaximum", norm, net.constant(4))
        ),
        lambda net, _: normalized(net, [3], limit=-1.0),
        lambda net, _: normalized(net, [0], keep_dims=False),
        lambda net, _: net.step("ElementWiseDivide", net.x, squares(net)),
    ],
    ids=["another tensor", "inverse", "limits", "limit below 0", "fewer axes", "no root"],
)
def test_what_only_resembles_it_stays(net: Any, write: Callable[[Any, Tensor], Tensor]) -> None:
    norm = net.step("ElementWiseSquareRoot", squares(net))
    write(net, norm).kind = TensorKind.APP_READ
    net.untouched(FuseL2Norm())


def test_a_norm_that_is_read_keeps_it_written_out(net: Any) -> None:
    y = normalized(net, [3])
    for tensor in (y, net.graph.nodes[1].outputs[0]):
        tensor.kind = TensorKind.APP_READ
    net.untouched(FuseL2Norm())


def test_a_half_float_stays_written_out(net: Any) -> None:
    net.graph.remove_tensor(net.x)
    net.x = net.graph.add_tensor(Tensor("x", DType.FLOAT_16, (2, 4), TensorKind.APP_WRITE))
    normalized(net, [1], limit=None)
    net.untouched(FuseL2Norm())
