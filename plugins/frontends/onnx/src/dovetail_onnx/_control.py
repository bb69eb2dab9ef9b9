"""If, Loop and Scan: their subgraphs replace them, once for each iteration; and sequences.

The number of iterations of Loop must therefore be known at import. So must the condition of If,
unless numbers decide it: then both branches replace it, and a selection. Scan has one iteration for
each slice of its inputs, a number that is always known. A Loop or Scan that is a recurrent layer
becomes that layer's operator instead.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
from onnx.helper import make_node

from dovetail_onnx._recurrent_layer import read_recurrent_loop
from dovetail_onnx._scan import scan
from dovetail_onnx._sequences import SEQUENCES
from dovetail_onnx._source import SourceNode
from dovetail_onnx._subgraph_node import Reader, SubgraphNode

_LOG = logging.getLogger("dovetail.importing")
_WHERE = 9  # the first opset with Where


def read_replaced(node: SourceNode, reader: Reader) -> None:
    """Read a node that other nodes replace, and make its outputs known.

    Raises:
        FrontendError: It lacks a graph, or does not fit it.
        UnsupportedOpError: A number of iterations or elements is not known, or too large.
    """
    _REPLACED[node.op_type](SubgraphNode(node, reader))


def _branch(control: SubgraphNode) -> None:
    """If: the one branch that its condition selects, or both and a selection."""
    condition = control.name(0)
    # a model's flags are not data: for each of their values, another model is better
    if control.node.opset >= _WHERE and control.reader.depends_on_numbers(condition):
        _select(control, condition)
        return
    taken = bool(control.known_number(control.name(0), "condition"))
    graph = control.graph("then_branch" if taken else "else_branch")
    outputs = control.unroll(graph, "then" if taken else "else", [])
    if outputs is not None:
        control.check_count(len(outputs))
        control.give(outputs)


def _select(control: SubgraphNode, condition: str) -> None:
    """Read both branches, and select the outputs of one."""
    scalar = control.scalar(condition)
    then = control.unroll(control.graph("then_branch"), "then", [])
    other = control.unroll(control.graph("else_branch"), "else", [])
    if scalar is None or then is None or other is None:
        return
    control.check_count(min(len(then), len(other)))
    selected = [""] * len(control.node.outputs)
    nodes = []
    for i, name in enumerate(control.node.outputs):
        if name:
            control.check_alike(condition, then[i], other[i], i)
            selected[i] = made = control.name_of(f"selected{i}")
            nodes.append(make_node("Where", [scalar, then[i], other[i]], [made], made))
    if control.read(nodes, list(filter(None, selected))):
        _LOG.warning(
            "%s: condition '%s' is computed from data, so both branches run",
            control.node.where,
            condition,
        )
        control.give(selected)


def _loop(control: SubgraphNode) -> None:
    """Loop: iteration by iteration, as long as its condition and its count allow."""
    graph = control.graph("body")
    count, condition = control.name(0), control.name(1)
    most = int(control.known_number(count, "trip count")) if count else None
    going = not condition or bool(control.known_number(condition, "condition"))
    carried = list(control.node.inputs[2:])
    control.check_outputs(graph, 1 + len(carried))
    rows: list[list[str]] = [[] for _ in graph.output[1 + len(carried) :]]
    control.check_count(len(carried) + len(rows))
    if going and read_recurrent_loop(control, graph, most, carried):
        return
    turn = 0
    while going and (most is None or turn < most):
        index = control.constant(f"index{turn}", np.asarray(turn, np.int64))
        again = control.constant(f"again{turn}", np.asarray(True))
        outputs = control.unroll(graph, str(turn), [index, again, *carried])
        if outputs is None:
            return
        going = bool(control.known_number(outputs[0], "condition"))
        carried = outputs[1 : 1 + len(carried)]
        for row, name in zip(rows, outputs[1 + len(carried) :], strict=True):
            row.append(name)
        turn += 1
    control.give(carried)
    for i, row in enumerate(rows):
        control.stack(row, 0, len(carried) + i)


_CONTROL: dict[str, Callable[[SubgraphNode], None]] = {"If": _branch, "Loop": _loop, "Scan": scan}
CONTROL = frozenset(_CONTROL)
_REPLACED = _CONTROL | SEQUENCES
REPLACED = frozenset(_REPLACED)
