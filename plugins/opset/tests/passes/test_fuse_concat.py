"""A concatenation along an axis of its own that becomes one along the next axis."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.ir import DType, Graph, ScaleOffset, Shape, Spec, Tensor, TensorKind, find_faults
from dovetail_opset.build import add
from dovetail_opset.passes import CONVERT_DEFAULT, FuseConcat

Evaluate = Callable[..., Any]
F32 = DType.FLOAT_32


def written_out(
    shape: Shape, axis: int, perm: Shape | None, out: Shape, *, parts: int = 2, **x: Any
) -> Graph:
    """Return a graph x0, x1, ... -> joined -> turned, unless that is left out -> y."""
    graph = Graph("g")
    dtype, encoding = x.get("dtype", F32), x.get("encoding")
    given = [
        graph.add_tensor(Tensor(f"x{i}", dtype, shape, TensorKind.APP_WRITE, encoding=encoding))
        for i in range(parts)
    ]
    made = add(graph, "Concat", given, name="joined", axis=axis)
    if perm is not None:
        made = add(graph, "Transpose", [made], name="turned", perm=perm)
    y = add(graph, "Reshape", [made], name="y", spec=Spec(dtype, out, encoding))
    y.kind = TensorKind.APP_READ
    return graph


def check(graph: Graph, evaluate: Evaluate) -> None:
    feeds = {
        t.name: (np.arange(np.prod(t.shape)) + 10 * i).astype(t.dtype.storage).reshape(t.shape)
        for i, t in enumerate(graph.inputs)
    }
    before = evaluate(graph, feeds)["y"]
    assert FuseConcat().run(graph)
    assert not find_faults(graph)
    np.testing.assert_array_equal(evaluate(graph, feeds)["y"], before)
    assert not FuseConcat().run(graph)


@pytest.mark.parametrize(
    ("shape", "axis", "perm", "out", "found"),
    [
        ((5, 1, 2, 4), 1, (0, 2, 1, 3), (5, 2, 8), 2),
        ((5, 1, 1, 4), 1, (0, 2, 1, 3), (5, 1, 8), 2),
        ((5, 1, 1, 4), 1, (0, 2, 1, 3), (5, 8), 1),
        ((5, 1, 2, 4), 1, (0, 2, 1, 3), (10, 8), 1),
        ((2, 5, 1, 4), 2, None, (2, 5, 8), 2),
        ((1, 5, 4), 0, (1, 0, 2), (5, 8), 1),
        ((1, 5, 4, 3), 0, (1, 0, 2, 3), (5, 8, 3), 1),
    ],
)
@pytest.mark.parametrize("parts", [2, 3])
def test_becomes_a_concat_of_the_next_axis(
    evaluate: Evaluate,
    shape: Shape,
    axis: int,
    perm: Shape | None,
    out: Shape,
    found: int,
    parts: int,
) -> None:
    wide = tuple(n // 2 * parts if i == found else n for i, n in enumerate(out))
    graph = written_out(shape, axis, perm, wide, parts=parts)
    check(graph, evaluate)
    last = graph.nodes[-1]
    assert (last.op_type, last.params["axis"].value) == ("Concat", found)
    assert last.sources == ("joined", *(("turned",) if perm else ()), "y")
    assert [n.op_type for n in graph.nodes[:-1]] == ["Reshape"] * parts


@pytest.mark.parametrize(
    ("shape", "axis", "perm", "out"),
    [
        ((5, 1, 2, 4), 1, None, (5, 2, 8)),  # not moved: rows of a batch lie between
        ((5, 1, 2, 4), 1, (2, 0, 1, 3), (2, 5, 8)),  # the others change places too
        ((5, 2, 2, 4), 1, (0, 2, 1, 3), (5, 2, 16)),  # no axis of its own
        ((5, 1, 2, 4), 1, (0, 2, 3, 1), (5, 2, 8)),  # in the last place: elements alternate
        ((5, 1, 2, 4), 1, (0, 2, 1, 3), (5, 2, 2, 4)),  # not merged
        ((5, 1, 2, 4), 1, (0, 2, 1, 3), (40, 2)),
    ],
)
def test_what_is_no_concat_of_the_next_axis_stays(
    shape: Shape, axis: int, perm: Shape | None, out: Shape
) -> None:
    graph = written_out(shape, axis, perm, out)
    assert not FuseConcat().run(graph)
    assert graph.nodes[0].op_type == "Concat"


def test_fixed_point_values_move_under_one_scale(evaluate: Evaluate) -> None:
    encoding = ScaleOffset(0.5, -3)
    given = {"dtype": DType.UFIXED_POINT_8, "encoding": encoding}
    graph = written_out((5, 1, 2, 4), 1, (0, 2, 1, 3), (5, 2, 8), **given)
    check(graph, evaluate)
    assert {t.encoding for t in graph.tensors.values()} == {encoding}


def test_scales_that_differ_stay() -> None:
    given = {"dtype": DType.UFIXED_POINT_8, "encoding": ScaleOffset(0.5, -3)}
    graph = written_out((5, 1, 2, 4), 1, (0, 2, 1, 3), (5, 2, 8), **given)
    graph.tensors["x1"].encoding = ScaleOffset(0.25, -3)
    assert not FuseConcat().run(graph)


@pytest.mark.parametrize("seen", ["joined", "turned"])
def test_what_others_read_stays(seen: str) -> None:
    graph = written_out((5, 1, 2, 4), 1, (0, 2, 1, 3), (5, 2, 8))
    graph.tensors[seen].kind = TensorKind.APP_READ
    assert not FuseConcat().run(graph)


def test_updateable_parts_stay() -> None:
    graph = written_out((5, 1, 2, 4), 1, (0, 2, 1, 3), (5, 2, 8))
    graph.tensors["x1"].kind = TensorKind.UPDATEABLE_APP_WRITE
    assert not FuseConcat().run(graph)


@pytest.mark.parametrize("batch", [1, 3])
def test_both_directions_of_a_layer_are_joined_without_moves(batch: int) -> None:
    graph = Graph("g")
    for name in ("forward", "reverse"):
        given = Tensor(name, F32, (5, batch, 4), TensorKind.APP_WRITE)
        graph.add_tensor(given)
    parts = [
        add(graph, "Reshape", [t], name=f"{t.name}.y", spec=Spec(F32, (5, 1, batch, 4)))
        for t in graph.inputs
    ]
    joined = add(graph, "Concat", parts, name="joined", axis=1)
    turned = add(graph, "Transpose", [joined], name="turned", perm=(0, 2, 1, 3))
    y = add(graph, "Reshape", [turned], name="y", spec=Spec(F32, (5, batch, 8)))
    y.kind = TensorKind.APP_READ
    CONVERT_DEFAULT.run(graph)
    (node,) = graph.nodes
    assert (node.op_type, node.inputs) == ("Concat", graph.inputs)


def test_a_single_direction_is_no_channel_shuffle() -> None:
    graph = Graph("g")
    x = graph.add_tensor(Tensor("x", F32, (5, 3, 4), TensorKind.APP_WRITE))
    apart = add(graph, "Reshape", [x], name="apart", spec=Spec(F32, (5, 1, 3, 4)))
    turned = add(graph, "Transpose", [apart], name="turned", perm=(0, 2, 1, 3))
    y = add(graph, "Reshape", [turned], name="y", spec=Spec(F32, (5, 3, 4)))
    z = add(graph, "Relu", [y], name="z")
    z.kind = TensorKind.APP_READ
    CONVERT_DEFAULT.run(graph)
    assert [n.op_type for n in graph.nodes] == ["Relu"]
