"""Fixed-point ops between transposes: these cancel, and encodings and values follow."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from dovetail.ir import (
    AxisScaleOffset,
    DType,
    Encoding,
    Graph,
    ScaleOffset,
    Shape,
    Spec,
    Tensor,
    TensorKind,
    find_faults,
)
from dovetail_opset.build import add, add_all, static
from dovetail_opset.passes import ChannelsLast

Evaluate = Callable[..., Any]
U8, F32 = DType.UFIXED_POINT_8, DType.FLOAT_32
LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
SHAPE = (2, 3, 5, 4)  # channels-last; the ops read (2, 4, 3, 5)
RNG = np.random.default_rng(11)
INDICES = RNG.integers(0, 4, (2, 4, 3, 5)).astype(np.int32)
# Op, constants after the input (shapes of fixed-point ones, or arrays), params.
CASES: list[tuple[str, Sequence[Any], dict[str, Any]]] = [
    ("Tile", [], {"multiples": [1, 2, 1, 3]}),
    ("ChannelShuffle", [], {"axis": 1, "num_groups": 2}),
    ("Prelu", [(4, 1, 1)], {}),
    ("Prelu", [(1, 4, 3, 5)], {}),
    ("ElementWiseSelect", [(4, 1, 1), (2, 1, 3, 5)], {}),
    ("ElementWiseGreater", [(4, 1, 1)], {}),
    ("ElementWiseUnary", [], {"operation": 0}),
    ("ElementWiseSquaredDifference", [(3, 5)], {}),
    ("ReduceMin", [], {"axes": [2, 3], "keep_dims": True}),
    ("ReduceProd", [], {"axes": [2], "keep_dims": True}),
    ("ReduceSumSquare", [], {"axes": [3, 1], "keep_dims": True}),
    ("Moments", [], {"axes": [2, 3], "keep_dims": True}),
    ("LogSoftmax", [], {"axis": 1}),
    ("Softmax", [], {"axis": 1, "beta": 0.5}),
    ("CumulativeSum", [], {"axis": 1, "reverse": True}),
    ("L2Norm", [], {"axis": 1}),
    ("L2Norm", [], {"axes": [2, 1]}),
    ("LayerNorm", [(5, 4), (5, 4)], {"axes": [3, 1]}),
    ("RmsNorm", [(5, 4), (5, 4)], {"axes": [3, 1]}),
    ("Argmax", [], {"axis": 1, "keep_dims": True}),
    ("Argmin", [], {"axis": 2, "keep_dims": True}),
    ("GatherElements", [INDICES[:, :3]], {"axis": 1}),
    ("ScatterElements", [INDICES[:1, :, :2], (1, 4, 2, 5)], {"axis": 1}),
    ("Pad", [], {"scheme": 0, "pad_amount": [(0, 0), (0, 1), (1, 0), (0, 2)]}),
    (
        "StridedSlice",
        [],
        {"ranges": [(0, 2, 1), (0, 3, 1), (1, 3, 1), (4, 9, -1)], "end_mask": 0b1001},
    ),
    ("Split", [], {"axis": 1, "split_index": [1, 3]}),
    ("Concat", [(2, 2, 3, 5)], {"axis": 1}),
]
# A constant pad has no single stored value under scales by axis: the op refuses it.
RUNS = [
    pytest.param(case, per_axis, id=f"{case[0]}-{'per-axis' if per_axis else 'per-tensor'}-{i}")
    for i, case in enumerate(CASES)
    for per_axis in (False, True)
    if not (per_axis and case[0] == "Pad")
]
# Results far beyond the range of the input have a coarser step.
STEPS = {"ReduceSumSquare": 1024.0, "Moments": 16.0}
# How many steps of the result the order of a float sum may make.
SUMS = dict.fromkeys(
    ("L2Norm", "LayerNorm", "LogSoftmax", "Moments", "ReduceSumSquare", "RmsNorm", "Softmax"), 1
)


def code(axis: int | None, extent: int, times: float = 1) -> Encoding:
    """Return an encoding of one scale, or of one for each element of an axis."""
    if axis is None:
        return ScaleOffset(0.25 * times, -100)
    scales = (times * (0.25 + 0.125 * np.arange(extent))).astype(np.float32)
    return AxisScaleOffset(axis, scales, -np.arange(90, 90 + extent, dtype=np.int32))


def constants(graph: Graph, given: Sequence[Any], per_axis: bool, *, plain: bool) -> list[Tensor]:
    made = []
    for i, item in enumerate(given):
        if isinstance(item, np.ndarray):
            made.append(static(graph, f"c{i}", item))
            continue
        values = np.random.default_rng(i).integers(60, 180, item).astype(np.uint8)
        if plain:
            made.append(static(graph, f"c{i}", values.astype(np.float32)))
            continue
        axis = max(range(len(item)), key=lambda k: item[k]) if per_axis else None
        encoding = code(axis, 1 if axis is None else item[axis])
        made.append(static(graph, f"c{i}", values, U8, encoding=encoding))
    return made


def inputs_of(op_type: str, first: Tensor, rest: Sequence[Tensor]) -> list[Tensor]:
    # the condition of a choice has an encoding too; what is chosen from then comes second
    return [rest[0], first, rest[1]] if op_type == "ElementWiseSelect" else [first, *rest]


def result_specs(op_type: str, given: Sequence[Any], params: dict[str, Any]) -> list[Spec]:
    """Return what the op makes of plain floats of (2, 4, 3, 5)."""
    graph = Graph("plain")
    first = graph.add_tensor(Tensor("x", F32, (2, 4, 3, 5), TensorKind.APP_WRITE))
    rest = constants(graph, given, False, plain=True)
    pieces = [f"y{i}" for i in range(len(params.get("split_index", [])) + 1)]
    outputs = pieces if op_type == "Split" else None
    made = add_all(
        graph, op_type, inputs_of(op_type, first, rest), name="y", outputs=outputs, **params
    )
    return [t.spec for t in made]


def between_transposes(
    op_type: str, given: Sequence[Any], params: dict[str, Any], per_axis: bool
) -> Graph:
    graph = Graph("g")
    x = Tensor("x", U8, SHAPE, TensorKind.APP_WRITE, encoding=code(3 if per_axis else None, 4))
    graph.add_tensor(x)
    first = add(graph, "Transpose", [x], name="first", perm=FIRST)
    rest = constants(graph, given, per_axis, plain=False)
    outputs = []
    for i, spec in enumerate(result_specs(op_type, given, params)):
        if spec.dtype is F32:
            encoding = code(1 if per_axis else None, spec.shape[1], STEPS.get(op_type, 1))
            spec = Spec(U8, spec.shape, encoding)
        outputs.append(Tensor(f"y{i}", spec.dtype, spec.shape, encoding=spec.encoding))
    made = add_all(
        graph, op_type, inputs_of(op_type, first, rest), name="op", outputs=outputs, **params
    )
    for y in made:
        encoding = None if y.encoding is None else y.encoding.transposed(LAST)
        shape: Shape = tuple(y.shape[p] for p in LAST)
        out = Tensor(f"{y.name}.out", y.dtype, shape, TensorKind.APP_READ, encoding=encoding)
        add(graph, "Transpose", [y], name=f"{y.name}.last", outputs=out, perm=LAST)
    return graph


@pytest.mark.parametrize(("case", "per_axis"), RUNS)
def test_encodings_follow_ops(
    evaluate: Evaluate, case: tuple[str, Sequence[Any], dict[str, Any]], per_axis: bool
) -> None:
    graph = between_transposes(*case, per_axis)
    assert not find_faults(graph)
    shown = [t.spec for t in graph.outputs]
    feed = {"x": np.random.default_rng(5).integers(0, 256, SHAPE).astype(np.uint8)}
    before = evaluate(graph, feed)
    assert ChannelsLast().run(graph)
    assert not find_faults(graph)
    assert [n.op_type for n in graph.nodes] == [case[0]]
    assert [t.spec for t in graph.outputs] == shown
    after = evaluate(graph, feed)
    for out in graph.outputs:
        # sums over axes in another order may fall to the other side of half a step
        assert np.abs(after[out.name].astype(int) - before[out.name]).max() <= SUMS.get(case[0], 0)
        assert len(np.unique(before[out.name])) > 1


SPATIAL: list[tuple[str, Sequence[int], dict[str, Any], Shape]] = [
    ("DepthToSpace", [], {"block_size": (2, 2)}, (2, 6, 10, 1)),
    ("SpaceToDepth", [], {"block_size": (3, 5)}, (2, 1, 1, 60)),
    ("Resize", [], {}, (2, 6, 10, 4)),
    ("ResizeBilinear", [], {"half_pixel_centers": True}, (2, 6, 10, 4)),
    ("ResizeNearestNeighbor", [], {}, (2, 6, 10, 4)),
    ("Lrn", [], {"radius": 1}, SHAPE),
    ("InstanceNorm", [4, 4], {}, SHAPE),
    ("GroupNorm", [4], {"group": 2, "epsilon": 1e-3}, SHAPE),
]


@pytest.mark.parametrize("case", SPATIAL, ids=[case[0] for case in SPATIAL])
def test_ops_tied_to_the_layout_lose_the_transposes_around_them(
    evaluate: Evaluate, case: tuple[str, Sequence[int], dict[str, Any], Shape]
) -> None:
    op_type, extents, params, shape = case
    graph = Graph("g")
    x = Tensor("x", U8, SHAPE, TensorKind.APP_WRITE, encoding=code(3, 4))
    graph.add_tensor(x)
    there = add(graph, "Transpose", [x], name="there", perm=FIRST)
    back = add(graph, "Transpose", [there], name="back", perm=LAST)
    weights = constants(graph, [(n,) for n in extents], False, plain=False)
    spec = Spec(U8, shape, code(3, shape[3]))
    y = add(graph, op_type, [back, *weights], name="op", spec=spec, **params)
    first = add(graph, "Transpose", [y], name="first", perm=FIRST)
    clipped = add(graph, "Relu", [first], name="relu", spec=first.spec)
    last = add(graph, "Transpose", [clipped], name="last", perm=LAST)
    last.kind = TensorKind.APP_READ
    feed = {"x": np.random.default_rng(5).integers(0, 256, SHAPE).astype(np.uint8)}
    before = evaluate(graph, feed)["last"]
    assert ChannelsLast().run(graph)
    assert not find_faults(graph)
    assert [n.op_type for n in graph.nodes] == [op_type, "Relu"]
    assert [t.encoding for n in graph.nodes for t in n.outputs] == [spec.encoding] * 2
    np.testing.assert_array_equal(evaluate(graph, feed)["last"], before)
