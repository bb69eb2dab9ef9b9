"""A group normalization written as one of the groups as channels becomes GroupNorm."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.ir import DType, Graph, Scalar, ScaleOffset, Spec, Tensor, TensorKind, find_faults
from dovetail_opset.build import add, static
from dovetail_opset.passes import CONVERT_DEFAULT, FuseGroupNorm

Evaluate = Callable[..., Any]
# means and deviations of up to 360 elements, added in another order
NEAR: Any = {"rtol": 2e-5, "atol": 2e-6}
F32 = DType.FLOAT_32


def written_out(
    shape: tuple[int, ...] = (2, 12, 5, 6),
    groups: int = 3,
    *,
    grouped: tuple[int, ...] | None = None,
    beta: bool = True,
    perm: tuple[int, ...] | None = None,
    **params: Any,
) -> Graph:
    """Return a graph of what PyTorch exports, as the frontend reads it: x -> y."""
    graph, rng = Graph("g"), np.random.default_rng(4)
    x = graph.add_tensor(Tensor("x", F32, shape, TensorKind.APP_WRITE))
    parts = grouped or (shape[0], groups, int(np.prod(shape[1:])) // groups)
    to_last = (0, *range(2, len(parts)), 1)
    back = (0, len(parts) - 1, *range(1, len(parts) - 1))
    y = add(graph, "Reshape", [x], name="groups", spec=Spec(F32, parts))
    y = add(graph, "Transpose", [y], name="last", perm=perm or to_last)
    width = y.shape[-1]
    factors = [
        static(graph, name, rng.uniform(0.5, 2, width).astype(np.float32))
        for name in ("gamma", "beta")[: 1 + beta]
    ]
    y = add(graph, "InstanceNorm", [y, *factors], name="norm", **{"epsilon": 1e-3, **params})
    y = add(graph, "Transpose", [y], name="first", perm=back)
    y = add(graph, "Reshape", [y], name="y", spec=Spec(F32, shape))
    y.kind = TensorKind.APP_READ
    return graph


def feed(graph: Graph) -> dict[str, Any]:
    shape = graph.inputs[0].shape
    return {"x": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}


@pytest.mark.parametrize("beta", [True, False])
@pytest.mark.parametrize(
    ("shape", "groups", "grouped"),
    [
        ((2, 12, 5, 6), 3, None),
        ((2, 12, 5, 6), 1, None),
        ((2, 12, 5, 6), 12, None),
        ((2, 12, 5, 6), 3, (2, 3, 4, 5, 6)),
        ((1, 8, 7), 2, None),
        ((1, 8, 3, 4, 5), 4, None),
    ],
)
def test_it_fuses(
    evaluate: Evaluate, shape: tuple[int, ...], groups: int, grouped: Any, beta: bool
) -> None:
    graph = written_out(shape, groups, grouped=grouped, beta=beta)
    fed = feed(graph)
    before = evaluate(graph, fed)["y"]
    assert FuseGroupNorm().run(graph)
    assert not FuseGroupNorm().run(graph)
    assert not find_faults(graph)
    assert [n.op_type for n in graph.nodes] == ["Transpose", "GroupNorm", "Transpose"]
    assert graph.nodes[1].params["group"] == Scalar(DType.UINT_32, groups)
    assert graph.nodes[1].sources == ("groups", "last", "norm", "first", "y")
    np.testing.assert_allclose(evaluate(graph, fed)["y"], before, **NEAR)


def test_factors_of_the_channels_join_it(evaluate: Evaluate) -> None:
    graph = written_out()
    (y,) = graph.outputs
    y.kind = TensorKind.NATIVE
    rng = np.random.default_rng(2)
    for op_type in ("ElementWiseMultiply", "ElementWiseAdd"):
        factor = static(graph, op_type, rng.uniform(0.5, 2, (12, 1, 1)).astype(np.float32))
        y = add(graph, op_type, [y, factor], name=f"{op_type}.y")
    y.kind = TensorKind.APP_READ
    fed = feed(graph)
    before = evaluate(graph, fed)[y.name]
    for step in CONVERT_DEFAULT.passes:
        step.run(graph)
    assert [n.op_type for n in graph.nodes] == ["Transpose", "GroupNorm", "Transpose"]
    np.testing.assert_allclose(evaluate(graph, fed)[y.name], before, **NEAR)


@pytest.mark.parametrize(
    "params",
    [
        {"mode": 1},
        {"region": 2},
        {"normalize_variance": False},
        {"grouped": (4, 6, 30)},  # other items
        {"grouped": (2, 5, 72)},  # groups of parts of channels
        {"grouped": (2, 12, 6, 5), "perm": (0, 3, 2, 1)},  # other axes are the channels
    ],
)
def test_what_only_resembles_it_stays(params: dict[str, Any]) -> None:
    assert not FuseGroupNorm().run(written_out(**params))


@pytest.mark.parametrize("name", ["groups", "last", "norm", "first"])
def test_a_part_that_is_read_keeps_it_written_out(name: str) -> None:
    graph = written_out()
    graph.tensors[name].kind = TensorKind.APP_READ
    assert not FuseGroupNorm().run(graph)


def test_a_range_that_was_chosen_keeps_it_written_out() -> None:
    graph = written_out()
    graph.tensors["norm"].encoding = ScaleOffset(0.1)
    assert not FuseGroupNorm().run(graph)


def test_factors_that_change_keep_it_written_out() -> None:
    graph = written_out()
    graph.tensors["gamma"].kind = TensorKind.UPDATEABLE_STATIC
    assert not FuseGroupNorm().run(graph)


def by_groups(
    net: Any,
    *,
    groups: tuple[int, int] = (2, 2),
    axes: tuple[int, ...] = (1, 2, 4),
    scale: tuple[int, ...] | None = None,
) -> Tensor:
    """Return the norm of groups of the last axis, as Flax and, with a scale, Keras write it."""
    shape = net.x.shape
    x = net.step("Reshape", net.x, spec=Spec(F32, (*shape[:-1], *groups)))
    mean = net.step("ReduceMean", x, axes=axes, keep_dims=True)
    centered = net.step("ElementWiseSubtract", x, mean)
    if scale is None:
        square = net.step("ElementWiseMultiply", x, x)
        squares = net.step("ReduceMean", square, axes=axes, keep_dims=True)
        squared = net.step("ElementWiseMultiply", mean, mean)
        variance = net.step("ElementWiseSubtract", squares, squared)
        variance = net.step("ElementWiseMaximum", variance, net.number(0))
    else:
        square = net.step("ElementWiseMultiply", centered, centered)
        variance = net.step("ReduceMean", square, axes=axes, keep_dims=True)
    spread = net.step("ElementWiseAdd", variance, net.number(1e-3))
    if scale is None:
        y = net.step("ElementWiseDivide", centered, net.step("ElementWiseSquareRoot", spread))
    else:
        inverse = net.step("ElementWiseRsqrt", spread)
        factor = net.step("ElementWiseMultiply", inverse, net.constant(*scale))
        shift = net.step("ElementWiseMultiply", mean, factor)
        shift = net.step("ElementWiseSubtract", net.constant(*scale), shift)
        y = net.step("ElementWiseAdd", net.step("ElementWiseMultiply", x, factor), shift)
    found: Tensor = net.step("Reshape", y, spec=Spec(F32, shape))
    return found


@pytest.mark.parametrize("scale", [None, (2, 2), (1, 1, 1, 2, 2), (2, 1)])
def test_groups_of_the_last_axis(net: Any, evaluate: Evaluate, scale: Any) -> None:
    y = by_groups(net, scale=scale)
    assert net.check(y, FuseGroupNorm(), evaluate) == ["GroupNorm"]
    (node,) = net.graph.nodes
    assert node.params["group"] == Scalar(DType.UINT_32, 2)
    assert len(node.inputs) == 3


def test_factors_after_groups_of_the_last_axis_join_it(net: Any, evaluate: Evaluate) -> None:
    y = net.step("ElementWiseMultiply", by_groups(net), net.constant(4))
    y = net.step("ElementWiseAdd", y, net.constant(1, 1, 1, 4))
    assert net.check(y, CONVERT_DEFAULT, evaluate) == ["GroupNorm"]


@pytest.mark.parametrize("axes", [(1, 2), (1, 2, 3), (4,), (0, 1, 2, 4)])
def test_a_norm_over_other_axes_is_none_of_groups(net: Any, axes: tuple[int, ...]) -> None:
    by_groups(net, axes=axes).kind = TensorKind.APP_READ
    net.untouched(FuseGroupNorm())


@pytest.mark.parametrize("scale", [(5, 1, 1), (3, 1, 1, 1)])
def test_a_scale_that_varies_elsewhere_is_none_of_groups(net: Any, scale: Any) -> None:
    by_groups(net, scale=scale).kind = TensorKind.APP_READ
    net.untouched(FuseGroupNorm())


def test_groups_that_are_read_stay(net: Any) -> None:
    by_groups(net).kind = TensorKind.APP_READ
    grouped = net.graph.nodes[0].outputs[0]
    net.step("Relu", grouped).kind = TensorKind.APP_READ
    net.untouched(FuseGroupNorm())
