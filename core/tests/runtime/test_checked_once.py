"""One checked graph: from a model to a ready session, each node is bound and inferred once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from reference_backend import OPS, ReferenceBackend, chain

from dovetail import runtime
from dovetail.container import Model, Producer
from dovetail.ops import NOTHING, CheckedGraph, Observed, OpSchema, check_ops

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the calls of each schema's `bind` and `infer`."""
    counts: Counter[str] = Counter()

    def count(name: str) -> None:
        original = getattr(OpSchema, name)

        def counted(self: OpSchema, *args: Any) -> Any:
            counts[name] += 1
            return original(self, *args)

        monkeypatch.setattr(OpSchema, name, counted)

    count("bind")
    count("infer")
    return counts


def test_each_node_is_bound_and_inferred_once(
    calls: Counter[str],
) -> None:
    model = Model.of(chain(*["Scale"] * 5), producer=Producer("test", "1"), registry=OPS)
    calls.clear()
    with runtime.Backend.create(ReferenceBackend, ops=OPS) as backend:
        (graph,) = backend.create_context().compose(model)
        graph.finalize()
        np.testing.assert_array_equal(graph.execute({"x": X})["y"], X * 2**5)
    assert calls == {"bind": 5, "infer": 5}


def part_of(checked: CheckedGraph) -> CheckedGraph:
    """Return the three nodes in the middle of a chain of five."""
    middle = checked.nodes[1:4]
    return checked.part(
        "middle", {view.node for view in middle}, middle[0].node.inputs, middle[-1].node.outputs
    )


def test_a_part_needs_no_new_check(calls: Counter[str]) -> None:
    checked = check_ops(chain(*["Scale"] * 5), OPS)
    calls.clear()
    part = part_of(checked)
    assert not calls
    assert part.nodes == checked.nodes[1:4]
    first, last = part.inputs[0], part.outputs[0]
    assert (part.producer(first), part.consumers(last)) == (None, ())
    assert part.consumers(first) == (part.nodes[0].node,)
    assert part.is_output(last)
    assert not part.is_internal(last)
    assert not checked.is_output(last)
    inner = part.nodes[0].node.outputs[0]
    assert part.only_reader(inner) is part.nodes[1].node
    assert set(part.tensors()) == {first, last, inner, part.nodes[1].node.outputs[0]}


@pytest.mark.parametrize(
    ("observed", "is_internal"), [(NOTHING, True), (Observed(frozenset({"t1"})), False)]
)
def test_an_observed_tensor_is_not_internal(observed: Observed, is_internal: bool) -> None:
    checked = check_ops(chain(*["Scale"] * 5), OPS, observed)
    tensor = checked.graph.tensors["t1"]
    assert checked.is_internal(tensor) is is_internal
    assert (checked.only_reader(tensor) is not None) is is_internal
    assert part_of(checked).is_internal(tensor) is is_internal
