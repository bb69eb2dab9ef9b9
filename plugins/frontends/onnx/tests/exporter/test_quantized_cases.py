"""The float cases of all ops on fixed-point tensors: what the model gives is what ours gives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from exported import export, feeds_of, run, stored_outputs

from dovetail.errors import UnsupportedOpError
from dovetail.ir import Array, Graph
from dovetail.ops import input_specs
from dovetail.ops.simulate import keeps_stored
from dovetail.testing import OpCase
from dovetail.testing.binding import bind
from dovetail_onnx.exporter import EXPORTED
from dovetail_opset import PACKAGE
from dovetail_opset.testing.quantized import CASES

Evaluate = Callable[..., dict[str, Array]]
BY_OP: dict[str, list[OpCase]] = defaultdict(list)
for _case in CASES:
    if _case.op_type in EXPORTED:
        BY_OP[_case.op_type].append(_case)


@pytest.mark.parametrize("op_type", BY_OP)
def test_cases_are_within_a_step_of_our_meaning(
    op_type: str, tmp_path: Path, evaluate: Evaluate
) -> None:
    """What only moves elements under one encoding gives the same integers.

    Others may be off by a step: ours divides by the scale in float64, ONNX Runtime in float32, and
    sums in another order, so that what lies half-way between two steps goes either way.
    """
    schema = PACKAGE.schemas[op_type]
    for case in BY_OP[op_type]:
        bound = bind(case)
        graph = bound.graph(schema)
        try:
            model = export(graph, tmp_path / "case.onnx")
        except UnsupportedOpError:
            continue  # `test_op_cases` says which cases may be refused
        (node,) = graph.nodes
        is_moved = keeps_stored(schema.domain, input_specs(node), [t.spec for t in node.outputs])
        stored = bound.feeds()
        found = stored_outputs(graph, run(model, feeds_of(graph, stored)))
        assert_within(0 if is_moved else 1, found, evaluate(graph, stored), case, graph)


def assert_within(
    steps: int, found: dict[str, Array], wanted: dict[str, Array], case: OpCase, graph: Graph
) -> None:
    for tensor in graph.outputs:
        ours = wanted[tensor.name].astype(np.int64)
        most = steps if tensor.dtype.is_fixed_point else 0
        distance = np.abs(found[tensor.name].astype(np.int64) - ours)
        assert distance.max(initial=0) <= most, (case.id, tensor.name)
