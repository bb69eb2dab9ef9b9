"""Another batch for a graph whose shapes are fixed.

The batch is followed from the inputs to the outputs: it is the outermost part of one axis of each
tensor. A node keeps it if it computes each element of the batch alone, which is decided by its op,
its params and the shapes that it infers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from dovetail.errors import DovetailError, OpError, Problem
from dovetail.ir import Graph, Node, Shape, Tensor, TensorKind
from dovetail.ops import Op, OpSchema, bind_node, input_specs
from dovetail_opset._package import PACKAGE, is_op, schema_of
from dovetail_opset._shapes import ints
from dovetail_opset.build import replace_op
from dovetail_opset.layouts import rule_of
from dovetail_opset.ops.arrangement import Tile
from dovetail_opset.ops.gather import GatherElements
from dovetail_opset.ops.ranking import TopK
from dovetail_opset.ops.recurrent import Gru, Lstm
from dovetail_opset.ops.slicing import StridedSlice
from dovetail_opset.perms import inverse

# Params such as the ranges of a slice hold sizes as INT_32; NumPy counts elements in 64 bits.
_MAX_SIZE, _MAX_ELEMENTS = 2**31 - 1, 2**60
# Ops besides those that elements may be transposed for, and keep the batch on any axis.
_ANY_AXIS = ("ExpandDims", "Gather", "MatMul", "Reshape", "Squeeze", "TopK", "Transpose")
# Ops that compute each element of the first axis alone.
_FIRST_AXIS = (
    *("ArgbToRgb", "Batchnorm", "Col2Im", "DepthToSpace", "ExtractPatches", "GridSample"),
    *("GroupNorm", "HadamardTransform", "Im2Col", "ImageProjectionTransform", "InstanceNorm"),
    *("Lrn", "Nv12ToRgb", "Nv21ToRgb", "Prelu", "RotaryEmbedding", "SpaceToDepth", "Stft"),
)
_FIRST_AXIS_PREFIXES = ("Conv", "DepthWiseConv", "L2Pool", "Pool", "Resize", "TransposeConv")
# Those of them whose second input has the batch, too.
_PAIRED = ("GridSample", "ImageProjectionTransform")
# Ops whose axes are those of the output.
_OUTPUT_AXES = ("ExpandDims", "Pack")


@dataclass(frozen=True, slots=True)
class Batch:
    """A change of the batch.

    Attributes:
        old, new: The sizes.
    """

    old: int
    new: int

    def scaled(self, size: int) -> int:
        """Return the new size of an axis with the batch."""
        return size // self.old * self.new


@dataclass(frozen=True, slots=True)
class _Place:
    """The position of the batch in a tensor.

    Attributes:
        axis: Its axis.
        inner: How many consecutive indices of the axis belong to one element of the batch.
    """

    axis: int
    inner: int


def change_batch(graph: Graph, batch: Batch, inputs: Iterable[Tensor]) -> list[Problem]:
    """Change the batch of a graph in place.

    Args:
        graph: The graph; its nodes match their ops.
        batch: The sizes.
        inputs: Inputs whose first axis is the batch; it has the old size.

    Returns:
        The nodes that cannot have another batch; the graph is then of no use.
    """
    change = _Change(graph, batch)
    try:
        for tensor in inputs:
            change.set(tensor, _Place(0, 1))
    except OpError as error:
        return [Problem(error.message, f"tensor '{tensor.name}'")]
    problems = [problem for node in graph.nodes for problem in change.follow(node)]
    return problems or list(change.misplaced())


class _Change:
    """A graph while its batch is changed, node by node in topological order."""

    def __init__(self, graph: Graph, batch: Batch) -> None:
        self._graph = graph
        self._batch = batch
        self._places: dict[Tensor, _Place] = {}
        self._shapes: dict[Tensor, Shape] = {}  # before the change
        self._unknown: set[Tensor] = set()

    def set(self, tensor: Tensor, place: _Place) -> None:
        """Set the new shape of a tensor with the batch.

        Raises:
            OpError: It would be too large.
        """
        old = tensor.shape
        self._places[tensor], self._shapes[tensor] = place, old
        tensor.shape = self._scaled(old, place.axis)
        stated = self._graph.source_encodings.get(tensor.source)
        if stated is not None and stated.shape == _source_shape(tensor, old):
            found = replace(stated, shape=_source_shape(tensor, tensor.shape))
            self._graph.source_encodings[tensor.source] = found

    def follow(self, node: Node) -> Iterator[Problem]:
        """Set the new shapes of a node's outputs; yield why they cannot have the batch."""
        if any(t in self._unknown for t in node.inputs):
            self._unknown |= {*node.outputs}
            return
        places = {t: self._places[t] for t in node.inputs if t is not None and t in self._places}
        if not places:
            return
        try:
            found = self._outputs(node, places)
            for tensor, place in zip(node.outputs, found, strict=True):
                self.set(tensor, place)
        except DovetailError as error:
            self._unknown |= {*node.outputs}
            texts = [problem.message for problem in error.problems] or [error.message]
            yield from (Problem(text, node.where, error.hint) for text in texts)

    def misplaced(self) -> Iterator[Problem]:
        """Yield the outputs that began with the batch, and would not any more."""
        for tensor in self._graph.outputs:
            place = self._places.get(tensor, _Place(0, 1))
            if place != _Place(0, 1) and self._shapes[tensor][0] == self._batch.old:
                text = f"the batch would be in axis {place.axis} instead of the first one"
                yield Problem(text, f"output '{tensor.name}'")

    def _outputs(self, node: Node, places: Mapping[Tensor, _Place]) -> list[_Place]:
        """Return the position of the batch in each output.

        Raises:
            OpError: An output would not have it, or would mix its elements.
        """
        schema = schema_of(node)
        if schema is None:
            raise OpError(f"unknown use of the batch by an op of the package {node.package}")
        op = self._bound(schema, node, places)
        _check(node, op, places)
        if is_op(node, "Reshape"):
            return [self._reshaped(node, *next(iter(places.items())))]
        shapes = self._inferred(schema, op, node, places)
        return [self._place(t, new) for t, new in zip(node.outputs, shapes, strict=False)]

    def _bound(self, schema: OpSchema, node: Node, places: Mapping[Tensor, _Place]) -> Op:
        """Return the op; a slice that takes the whole batch takes that of the new size, too."""
        op = bind_node(schema, node)
        x = node.inputs[0]
        if not isinstance(op, StridedSlice) or x is None or op.new_axes_mask:
            return op
        axis, rows = places[x].axis, op.ranges.tolist()
        if rows[axis] == [0, self._shapes[x][axis], 1]:
            rows[axis][1] = x.shape[axis]
            node.params["ranges"] = schema.params["ranges"].param_of(rows, node.name)
        return bind_node(schema, node)

    def _reshaped(self, node: Node, source: Tensor, place: _Place) -> _Place:
        """Return the position of the batch in the elements of a tensor in another shape.

        A Reshape that moves the only axis of the batch, where that is 1, becomes a Transpose if the
        result is an output or is read by a recurrent layer, or if the batch would be after data
        that it is before, as in the columns that a layer after a recurrent one multiplies.
        """
        (target,) = node.outputs
        old, shape = self._shapes[source], target.shape
        axes = [
            axis
            for axis, size in enumerate(shape)
            if math.prod(shape[:axis]) == math.prod(old[: place.axis])
            and size
            and size % self._batch.old == 0
        ]
        found = _Place(axes[0], shape[axes[0]] // self._batch.old) if axes else None
        is_behind = found is None or found.axis > place.axis
        if place.inner == 1 and found != _Place(0, 1) and (is_behind or self._needs_axis(target)):
            for perm in _moves(old, shape, place.axis, self._batch.old):
                params = {
                    "perm": PACKAGE.schemas["Transpose"].params["perm"].param_of(perm, node.name)
                }
                replace_op(self._graph, node, "Transpose", params=params)
                return _Place(perm.index(place.axis), 1)
        if found is None:
            raise OpError(f"no axis of the shape {shape} begins with the batch")
        return found

    def _needs_axis(self, tensor: Tensor) -> bool:
        readers = self._graph.consumers(tensor)
        return tensor.kind is TensorKind.APP_READ or any(is_op(n, "Lstm", "Gru") for n in readers)

    def _inferred(
        self, schema: OpSchema, op: Op, node: Node, places: Mapping[Tensor, _Place]
    ) -> Sequence[Shape]:
        """Return the shapes of a node's outputs for its new inputs."""
        ins = input_specs(node)
        try:
            found = schema.infer(op, ins, [None] * len(node.outputs))
        except OpError:  # an op that reads its target in the output
            (x, place), *_ = places.items()
            same = [
                replace(t.spec, shape=self._scaled(t.shape, place.axis))
                for t in node.outputs
                if len(t.shape) == len(x.shape)
            ]
            found = schema.infer(op, ins, same)
        return [spec.shape for spec in found]

    def _place(self, tensor: Tensor, shape: Shape) -> _Place:
        """Return the position of the batch in an output with a new shape."""
        changed = [
            axis
            for axis, pair in enumerate(zip(tensor.shape, shape, strict=False))
            if pair[0] != pair[1]
        ]
        if len(shape) == len(tensor.shape) and len(changed) == 1:
            (axis,) = changed
            if shape == self._scaled(tensor.shape, axis):
                return _Place(axis, tensor.shape[axis] // self._batch.old)
        raise OpError(f"the output of shape {tensor.shape} does not keep the batch")

    def _scaled(self, shape: Shape, axis: int) -> Shape:
        found = (*shape[:axis], self._batch.scaled(shape[axis]), *shape[axis + 1 :])
        if found[axis] > _MAX_SIZE or math.prod(found) > _MAX_ELEMENTS:
            raise OpError(f"impossible shape {found}")
        return found


def _moves(old: Shape, new: Shape, axis: int, size: int) -> Iterator[Shape]:
    """Yield the perms that lead from a shape to another one by moving an axis of a size of 1."""
    rest = (*range(axis), *range(axis + 1, len(old)))
    for to, each in enumerate(new) if size == old[axis] == 1 else ():
        if each == 1 and (*new[:to], *new[to + 1 :]) == tuple(old[i] for i in rest):
            yield (*rest[:to], axis, *rest[to:])


def _source_shape(tensor: Tensor, shape: Shape) -> Shape:
    """Return a shape of a tensor in the layout of the source model."""
    perm = tensor.source_perm or tuple(range(len(shape)))
    return tuple(shape[axis] for axis in inverse(perm))


def _check(node: Node, op: Op, places: Mapping[Tensor, _Place]) -> None:
    """Raise if a node mixes elements of the batch, or if that is not known."""
    if isinstance(op, Lstm | Gru):
        x = node.inputs[0]
        axis = 1 if x is not None and len(x.shape) == 3 and op.time_major else 0
        if x is None or places.get(x) != _Place(axis, 1):
            raise OpError("the batch is not on the op's own axis of it")
    elif is_op(node, "FullyConnected"):  # its rows are those of all leading axes
        if any(t is not node.inputs[0] or place.axis for t, place in places.items()):
            raise OpError("the batch is not the first axis")
    elif rule_of(node) is not None or is_op(node, *_ANY_AXIS):
        _check_axes(node, op, places)
        _check_ends(node, op, places)
    elif is_op(node, *_FIRST_AXIS) or node.op_type.startswith(_FIRST_AXIS_PREFIXES):
        # the only axis is that of the channels
        if any(place != _Place(0, 1) or len(t.shape) == 1 for t, place in places.items()):
            raise OpError("the batch is not the first axis")
        _check_tables(node, places)
    else:
        raise OpError(f"{node.op_type} is not known to compute each element of the batch alone")


def _check_axes(node: Node, op: Op, places: Mapping[Tensor, _Place]) -> None:
    """Raise if an op computes along the axis of the batch."""
    if is_op(node, *_OUTPUT_AXES):
        return
    if is_op(node, "ScatterElements") and not places.keys() >= set(node.inputs):
        raise OpError("indices or updates have no batch")
    for tensor in node.inputs if is_op(node, "Concat") else node.inputs[:1]:
        if tensor is None or tensor not in places:
            continue
        place = places[tensor]
        if place.axis in _axes(op, len(tensor.shape)):
            raise OpError(f"computes along the batch, axis {place.axis}")
        if isinstance(op, Tile) and ints(op.multiples)[place.axis] != 1:
            raise OpError(f"repeats the batch, axis {place.axis}")
        if isinstance(op, StridedSlice):
            _check_slice(op, place.axis, tensor.shape[place.axis])


def _check_slice(op: StridedSlice, axis: int, size: int) -> None:
    """Raise if a slice takes a part of the batch, or takes it in another order."""
    entry = [each for each in op.index() if each is not None][axis]
    if isinstance(entry, slice) and entry.indices(size) != (0, size, 1):
        raise OpError(f"slices the batch, axis {axis}")


def _check_ends(node: Node, op: Op, places: Mapping[Tensor, _Place]) -> None:
    """Raise if elements of the batch would meet others: axes are counted from the last one.

    Shapes alone do not show it where the new size is that of another axis.
    """
    ends = {(place.axis - len(t.shape), place.inner) for t, place in places.items()}
    if len(ends) > 1 and not is_op(node, "Gather"):
        raise OpError("inputs have the batch on different axes")
    if isinstance(op, GatherElements) and node.inputs[0] not in places:
        ((end, _),) = ends
        if end + len(node.outputs[0].shape) != op.axis:
            raise OpError("the data have no batch, but would be read by it")


def _check_tables(node: Node, places: Mapping[Tensor, _Place]) -> None:
    """Raise if the batch is in what all elements of it share."""
    others = node.inputs[1:]
    if is_op(node, "RotaryEmbedding"):
        shared = others[:2] if len(others) > 2 and others[2] is not None else ()
    else:
        shared = () if is_op(node, *_PAIRED) else others
    if any(t in places for t in shared if t is not None):
        raise OpError("weights or tables have the batch")


def _axes(op: Op, rank: int) -> Iterator[int]:
    """Yield the axes along which an op computes."""
    if isinstance(op, TopK):
        yield rank - 1
    axis, axes = getattr(op, "axis", None), getattr(op, "axes", None)
    named = ints(axes) if axes is not None else () if axis is None else (int(axis),)
    yield from (each % max(rank, 1) for each in named)
