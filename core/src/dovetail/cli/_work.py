"""The multiply-accumulates of a model, for `dovetail inspect --macs`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dovetail.cli.output import current_output, table
from dovetail.container import Model
from dovetail.ir import Graph
from dovetail.ops import OpRegistry, check_ops
from dovetail.plugins.ops import installed_ops


@dataclass(frozen=True, slots=True)
class NodeWork:
    """The work of a node.

    Attributes:
        node: Its name.
        op: Its op, as `package::op`.
        macs: Multiply-accumulates of one execution.
    """

    node: str
    op: str
    macs: int


def node_work(graph: Graph, ops: OpRegistry) -> list[NodeWork]:
    """Return the work of each node, in order.

    Raises:
        UnsupportedOpError: An op is unknown; all are listed.
        GraphError: The graph has faults; all are listed.
    """
    return [
        NodeWork(view.node.name, f"{view.package}::{view.op_type}", view.work)
        for view in check_ops(graph, ops).nodes
    ]


def show_macs(file: Path, model: Model) -> None:
    """Print the work of each node of a model, and the totals.

    Raises:
        DovetailError: The graphs have faults or unknown ops.
    """
    ops = installed_ops()
    found = {name: node_work(graph, ops) for name, graph in model.graphs.items()}
    totals = {name: sum(work.macs for work in works) for name, works in found.items()}
    data: dict[str, Any] = {
        "file": str(file),
        "macs": {
            name: {
                "total": totals[name],
                "nodes": [{"node": w.node, "op": w.op, "macs": w.macs} for w in works],
            }
            for name, works in found.items()
        },
    }
    text = (
        f"graph {name}: {totals[name]:,} multiply-accumulates\n\n"
        + table(("NODE", "OP", "MACS"), [(w.node, w.op, f"{w.macs:,}") for w in works])
        for name, works in found.items()
    )
    current_output().data(data, "\n\n".join(text))
