"""Scan: a recurrent layer, or a subgraph that is read once for each slice of its inputs."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import GraphProto

from dovetail.errors import UnsupportedOpError
from dovetail_onnx._recurrent_layer import read_recurrent_scan
from dovetail_onnx._step_body import Sequenced
from dovetail_onnx._subgraph_node import SubgraphNode

# States at the end, and the results of each iteration for each of the other outputs.
_Found = tuple[list[str], list[list[str]]]


def scan(control: SubgraphNode) -> None:
    """Read a Scan.

    Raises:
        FrontendError: Its inputs, graph and attributes do not fit each other.
        UnsupportedOpError: It has too many iterations, or none, or stops early.
    """
    graph, count = control.graph("body"), control.attr.integer("num_scan_inputs", 1)
    has_batch = control.node.opset < 9
    given = control.node.inputs[1:] if has_batch else control.node.inputs
    if not 1 <= count <= len(given):
        raise control.invalid(f"num_scan_inputs is {count}, but the node has {len(given)} inputs")
    states, inputs = list(given[:-count]), list(given[-count:])
    control.check_outputs(graph, len(states))
    control.check_count(len(graph.output))
    if has_batch:
        _scan_batch(control, graph, states, inputs)
    else:
        _scan_once(control, graph, states, inputs)


def _scan_once(
    control: SubgraphNode, graph: GraphProto, states: Sequence[str], inputs: Sequence[str]
) -> None:
    none = (0,) * len(inputs)
    axes = control.attr.integers("scan_input_axes") or none
    slices = _Slices(control, inputs, axes, control.attr.integers("scan_input_directions") or none)
    count = len(graph.output) - len(states)
    axes = control.attr.integers("scan_output_axes") or (0,) * count
    backwards = control.attr.integers("scan_output_directions") or (0,) * count
    if not len(axes) == len(backwards) == count:
        raise control.invalid(f"the attributes do not match the {count} outputs of an iteration")
    layer = None
    if not any((*axes, *backwards)):
        layer = read_recurrent_scan(control, graph, states, slices.sequences)
    if layer is not None:
        control.give([*layer.states, *layer.rows])
        return
    found = _turns(control, "", graph, states, slices)
    if found is None:
        return
    control.give(found[0])
    for i, row in enumerate(found[1]):
        control.stack(row[::-1] if backwards[i] else row, axes[i], len(states) + i)


def _scan_batch(
    control: SubgraphNode, graph: GraphProto, states: Sequence[str], inputs: Sequence[str]
) -> None:
    """Version 8: the same for each element of a batch, which is the first axis of everything."""
    names = [*states, *inputs]
    shapes = [tuple(v.shape) for n in names if (v := control.reader.value(n)) is not None]
    if len(shapes) < len(names) or len({shape[:1] for shape in shapes}) != 1 or () in shapes:
        raise control.invalid("the inputs must have the same batch")
    none, found = (0,) * len(inputs), []
    backwards = control.attr.integers("directions") or none
    for b in range(shapes[0][0]):
        taken = control.taken(f"batch{b}", names, (0,) * len(names), (b,) * len(names))
        if taken is None:
            return
        slices = _Slices(control, taken[len(states) :], none, backwards)
        _check_lengths(control, slices.length)
        turned = _turns(control, f"{b}.", graph, taken[: len(states)], slices)
        if turned is None:
            return
        joined = [control.joined(f"row{i}.{b}", row, 0) for i, row in enumerate(turned[1])]
        found.append([*turned[0], *joined])
    for i in range(len(graph.output)):
        parts = [outputs[i] for outputs in found]
        if None not in parts:
            control.stack([part for part in parts if part is not None], 0, i)


def _check_lengths(control: SubgraphNode, length: int) -> None:
    """Raise if the sequence lengths, the first input of version 8, are not the maximum."""
    name = control.name(0)
    if name and (control.known(name, "lengths of sequences") != length).any():
        raise UnsupportedOpError(
            f"unsupported sequences that end before the maximum of {length} iterations",
            where=control.node.where,
            hint="convert the model to opset 13 or later with onnx.version_converter",
        )


def _turns(
    control: SubgraphNode, prefix: str, graph: GraphProto, states: Sequence[str], slices: _Slices
) -> _Found | None:
    """Read all iterations; return None if there was a problem."""
    carried = list(states)
    rows: list[list[str]] = [[] for _ in graph.output[len(carried) :]]
    for turn in range(slices.length):
        name = f"{prefix}{turn}"
        taken = slices.take(name, turn)
        outputs = None if taken is None else control.unroll(graph, name, [*carried, *taken])
        if outputs is None:
            return None
        carried = outputs[: len(carried)]
        for row, made in zip(rows, outputs[len(carried) :], strict=True):
            row.append(made)
    return carried, rows


class _Slices:
    """The inputs of Scan that are taken slice by slice.

    Args:
        control: The node.
        names: Names of the inputs.
        axes: Along which they are sliced.
        backwards: Whether from the end, for each.

    Attributes:
        length: Number of slices.
    """

    def __init__(
        self,
        control: SubgraphNode,
        names: Sequence[str],
        axes: Sequence[int],
        backwards: Sequence[int],
    ) -> None:
        self._control = control
        self._names = names
        self._backwards = backwards
        shapes = [tuple(v.shape) for n in names if (v := control.reader.value(n)) is not None]
        fits = len(shapes) == len(axes) == len(backwards)
        fits = fits and all(-len(s) <= a < len(s) for s, a in zip(shapes, axes, strict=True))
        lengths = {s[a] for s, a in zip(shapes, axes, strict=True)} if fits else set()
        if len(lengths) != 1:
            raise control.invalid(
                "the inputs differ in length, or the attributes do not match them"
            )
        self._axes = [a % len(s) for s, a in zip(shapes, axes, strict=True)]
        self.length = lengths.pop()

    @property
    def sequences(self) -> list[Sequenced]:
        """The inputs, each with its axis and the positions of its slices in order."""
        order = range(self.length)
        return [
            Sequenced(name, axis, order[::-1] if backwards else order)
            for name, axis, backwards in zip(self._names, self._axes, self._backwards, strict=True)
        ]

    def take(self, name: str, turn: int) -> list[str] | None:
        """Read the slices for one iteration; return their names, None if there was a problem."""
        last = self.length - 1
        places = [last - turn if backwards else turn for backwards in self._backwards]
        return self._control.taken(f"slices{name}", self._names, self._axes, places)
