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
from dovetail.ops import BatchAxis, Op, OpRegistry, OpSchema, bind_node, input_specs
from dovetail_opset._package import PACKAGE, STANDARD, is_op
from dovetail_opset._shapes import ints
from dovetail_opset.build import replace_op
from dovetail_opset.ops.arrangement import Tile
from dovetail_opset.ops.gather import GatherElements
from dovetail_opset.ops.ranking import TopK
from dovetail_opset.ops.recurrent import Gru, Lstm
from dovetail_opset.ops.slicing import StridedSlice
from dovetail_opset.perms import to_source

# Params such as the ranges of a slice hold sizes as INT_32; NumPy counts elements in 64 bits.
_MAX_SIZE, _MAX_ELEMENTS = 2**31 - 1, 2**60
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
class _Position:
    """The position of the batch in a tensor.

    Attributes:
        axis: Its axis.
        inner: How many consecutive indices of the axis belong to one element of the batch.
    """

    axis: int
    inner: int


def change_batch(
    graph: Graph, batch: Batch, inputs: Iterable[Tensor], ops: OpRegistry
) -> list[Problem]:
    """Change the batch of a graph in place.

    Args:
        graph: The graph; its nodes match their ops.
        batch: The sizes.
        inputs: Inputs whose first axis is the batch; it has the old size.
        ops: Finds the ops of nodes.

    Returns:
        The nodes that cannot have another batch; the graph is then of no use.
    """
    change = _Change(graph, batch, ops)
    try:
        for tensor in inputs:
            change.set(tensor, _Position(0, 1))
    except OpError as error:
        return [Problem(error.message, f"tensor '{tensor.name}'")]
    problems = [problem for node in graph.nodes for problem in change.follow(node)]
    return problems or list(change.misplaced())


class _Change:
    """A graph while its batch is changed, node by node in topological order."""

    def __init__(self, graph: Graph, batch: Batch, ops: OpRegistry) -> None:
        self._graph = graph
        self._batch = batch
        self._ops = ops
        self._positions: dict[Tensor, _Position] = {}
        self._shapes: dict[Tensor, Shape] = {}  # before the change
        self._unknown: set[Tensor] = set()

    def set(self, tensor: Tensor, position: _Position) -> None:
        """Set the new shape of a tensor with the batch.

        Raises:
            OpError: It would be too large.
        """
        old = tensor.shape
        self._positions[tensor], self._shapes[tensor] = position, old
        tensor.shape = self._scaled(old, position.axis)
        stated = self._graph.source_encodings.get(tensor.source)
        if stated is not None and stated.shape == _source_shape(tensor, old):
            found = replace(stated, shape=_source_shape(tensor, tensor.shape))
            self._graph.source_encodings[tensor.source] = found

    def follow(self, node: Node) -> Iterator[Problem]:
        """Set the new shapes of a node's outputs; yield why they cannot have the batch."""
        if any(t in self._unknown for t in node.inputs):
            self._unknown |= {*node.outputs}
            return
        inputs = [tensor for tensor in node.inputs if tensor is not None]
        positions = {t: self._positions[t] for t in inputs if t in self._positions}
        if not positions:
            return
        try:
            found = self._outputs(node, positions)
            for tensor, position in zip(node.outputs, found, strict=True):
                self.set(tensor, position)
        except DovetailError as error:
            self._unknown |= {*node.outputs}
            texts = [problem.message for problem in error.as_problems()]
            yield from (Problem(text, node.where, error.hint) for text in texts)

    def misplaced(self) -> Iterator[Problem]:
        """Yield the outputs that began with the batch, and would not any more."""
        for tensor in self._graph.outputs:
            position = self._positions.get(tensor, _Position(0, 1))
            if position != _Position(0, 1) and self._shapes[tensor][0] == self._batch.old:
                text = f"the batch would be in axis {position.axis} instead of the first one"
                yield Problem(text, f"output '{tensor.name}'")

    def _outputs(self, node: Node, positions: Mapping[Tensor, _Position]) -> list[_Position]:
        """Return the position of the batch in each output.

        Raises:
            OpError: An output would not have it, or would mix its elements.
        """
        schema = self._ops.find(node.package, node.op_type)
        op = self._bound(schema, node, positions)
        _check(node, op, positions)
        if is_op(node, "Reshape"):
            return [self._reshaped(node, *next(iter(positions.items())))]
        shapes = self._inferred(schema, op, node, positions)
        return [self._position(t, new) for t, new in zip(node.outputs, shapes, strict=False)]

    def _bound(self, schema: OpSchema, node: Node, positions: Mapping[Tensor, _Position]) -> Op:
        """Return the op; a slice that takes the whole batch takes that of the new size, too."""
        op = bind_node(schema, node)
        x = node.inputs[0]
        if not isinstance(op, StridedSlice) or x is None or op.new_axes_mask:
            return op
        axis, rows = positions[x].axis, op.ranges.tolist()
        if rows[axis] == [0, self._shapes[x][axis], 1]:
            rows[axis][1] = x.shape[axis]
            node.params["ranges"] = schema.params["ranges"].param_of(rows, node.name)
        return bind_node(schema, node)

    def _reshaped(self, node: Node, source: Tensor, position: _Position) -> _Position:
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
            if math.prod(shape[:axis]) == math.prod(old[: position.axis])
            and size
            and size % self._batch.old == 0
        ]
        found = _Position(axes[0], shape[axes[0]] // self._batch.old) if axes else None
        is_later = found is None or found.axis > position.axis
        is_moved = position.inner == 1 and found != _Position(0, 1)
        if is_moved and (is_later or self._needs_axis(target)):
            for perm in _moves(old, shape, position.axis, self._batch.old):
                params = {
                    "perm": PACKAGE.schemas["Transpose"].params["perm"].param_of(perm, node.name)
                }
                replace_op(self._graph, node, "Transpose", params=params)
                return _Position(perm.index(position.axis), 1)
        if found is None:
            raise OpError(f"no axis of the shape {shape} begins with the batch")
        return found

    def _needs_axis(self, tensor: Tensor) -> bool:
        readers = self._graph.consumers(tensor)
        return tensor.kind is TensorKind.APP_READ or any(is_op(n, "Lstm", "Gru") for n in readers)

    def _inferred(
        self, schema: OpSchema, op: Op, node: Node, positions: Mapping[Tensor, _Position]
    ) -> Sequence[Shape]:
        """Return the shapes of a node's outputs for its new inputs."""
        ins = input_specs(node)
        try:
            found = schema.infer(op, ins, [None] * len(node.outputs))
        except OpError:  # an op that reads its target in the output
            (x, position), *_ = positions.items()
            same = [
                replace(t.spec, shape=self._scaled(t.shape, position.axis))
                if len(t.shape) == len(x.shape)
                else None
                for t in node.outputs
            ]
            found = schema.infer(op, ins, same)
        return [spec.shape for spec in found]

    def _position(self, tensor: Tensor, shape: Shape) -> _Position:
        """Return the position of the batch in an output with a new shape."""
        changed = [
            axis
            for axis, pair in enumerate(zip(tensor.shape, shape, strict=False))
            if pair[0] != pair[1]
        ]
        if len(shape) == len(tensor.shape) and len(changed) == 1:
            (axis,) = changed
            if shape == self._scaled(tensor.shape, axis):
                return _Position(axis, tensor.shape[axis] // self._batch.old)
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
    return tuple(shape[axis] for axis in to_source(tensor))


def _check(node: Node, op: Op, positions: Mapping[Tensor, _Position]) -> None:
    """Raise if a node mixes elements of the batch, or if that is not known."""
    if isinstance(op, Lstm | Gru):
        x = node.inputs[0]
        axis = 1 if x is not None and len(x.shape) == 3 and op.time_major else 0
        if x is None or positions.get(x) != _Position(axis, 1):
            raise OpError("the batch is not on the op's own axis of it")
    elif is_op(node, "FullyConnected"):  # its rows are those of all leading axes
        if any(t is not node.inputs[0] or position.axis for t, position in positions.items()):
            raise OpError("the batch is not the first axis")
    elif op.is_elementwise or op.batch_axis is BatchAxis.ANY:
        _check_axes(node, op, positions)
        _check_ends(node, op, positions)
    elif op.batch_axis is BatchAxis.FIRST:
        # the only axis is that of the channels
        if any(found != _Position(0, 1) or len(t.shape) == 1 for t, found in positions.items()):
            raise OpError("the batch is not the first axis")
        _check_shared(node, op, positions)
    else:
        raise OpError(
            f"{node.op_type} is not known to compute each element of the batch alone",
            hint="" if node.package == STANDARD else "if it does, state `batch_axis` in its class",
        )


def _check_axes(node: Node, op: Op, positions: Mapping[Tensor, _Position]) -> None:
    """Raise if an op computes along the axis of the batch."""
    if is_op(node, *_OUTPUT_AXES):
        return
    if is_op(node, "ScatterElements") and not positions.keys() >= set(node.inputs):
        raise OpError("indices or updates have no batch")
    # the axes of the other standard ops are those of their first input
    has_all = node.package != STANDARD or is_op(node, "Concat")
    tensors = [t for t in (node.inputs if has_all else node.inputs[:1]) if t is not None]
    rank = max((len(t.shape) for t in tensors), default=0)
    for tensor in tensors:
        if tensor not in positions:
            continue
        position = positions[tensor]
        if position.axis + rank - len(tensor.shape) in _axes(op, rank):
            raise OpError(f"computes along the batch, axis {position.axis}")
        if isinstance(op, Tile) and ints(op.multiples)[position.axis] != 1:
            raise OpError(f"repeats the batch, axis {position.axis}")
        if isinstance(op, StridedSlice):
            _check_slice(op, position.axis, tensor.shape[position.axis])


def _check_slice(op: StridedSlice, axis: int, size: int) -> None:
    """Raise if a slice takes a part of the batch, or takes it in another order."""
    entry = [each for each in op.index() if each is not None][axis]
    if isinstance(entry, slice) and entry.indices(size) != (0, size, 1):
        raise OpError(f"slices the batch, axis {axis}")


def _check_ends(node: Node, op: Op, positions: Mapping[Tensor, _Position]) -> None:
    """Raise if elements of the batch would meet others: axes are counted from the last one.

    Shapes alone do not show it where the new size is that of another axis.
    """
    ends = {(position.axis - len(t.shape), position.inner) for t, position in positions.items()}
    if len(ends) > 1 and not is_op(node, "Gather"):
        raise OpError("inputs have the batch on different axes")
    if isinstance(op, GatherElements) and node.inputs[0] not in positions:
        ((end, _),) = ends
        if end + len(node.outputs[0].shape) != op.axis:
            raise OpError("the data have no batch, but would be read by it")


def _check_shared(node: Node, op: Op, positions: Mapping[Tensor, _Position]) -> None:
    """Raise if the batch is in what all elements of it share."""
    own = {*op.batch_inputs}
    if is_op(node, "RotaryEmbedding") and len(node.inputs) > 3 and node.inputs[3] is not None:
        own -= {1, 2}  # each element reads the rows of its positions
    if any(t in positions for i, t in enumerate(node.inputs) if i not in own):
        raise OpError("weights or tables have the batch")


def _axes(op: Op, rank: int) -> Iterator[int]:
    """Yield the axes along which an op computes."""
    if isinstance(op, TopK):
        yield rank - 1
    axis, axes = getattr(op, "axis", None), getattr(op, "axes", None)
    named = ints(axes) if axes is not None else () if axis is None else (int(axis),)
    yield from (each % max(rank, 1) for each in named)
