"""The pass runner: order, what it reports, and whom it blames."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from dovetail.errors import GraphError, Problem
from dovetail.ir import DType, Graph, Node, Pass, Tensor, TensorKind, run_passes


@dataclass(frozen=True)
class Step:
    name: str
    does: object = None
    changes: bool = True
    log: list[str] = field(default_factory=list)

    def run(self, graph: Graph) -> bool:
        self.log.append(self.name)
        if callable(self.does):
            self.does(graph)
        return self.changes


def add_output(graph: Graph) -> None:
    graph.add_tensor(Tensor(graph.fresh_name("lost"), DType.FLOAT_32, (), TensorKind.APP_READ))


def produce(graph: Graph) -> None:
    for output in graph.outputs:
        if graph.producer(output) is None:
            graph.add_node(Node(graph.fresh_name("n"), "p", "Op", [], [output]))


def test_passes_run_in_order_and_say_what_they_did() -> None:
    told: list[tuple[str, bool]] = []
    log: list[str] = []
    steps = [Step("a", None, False, log), Step("b", None, True, log), Step("c", None, False, log)]
    changed = run_passes(Graph("g"), steps, finished=lambda name, did, ms: told.append((name, did)))
    assert changed
    assert log == ["a", "b", "c"]
    assert told == [("a", False), ("b", True), ("c", False)]
    assert not run_passes(Graph("g"), [Step("a", changes=False)])
    assert not run_passes(Graph("g"), [])


def test_a_pass_that_breaks_the_graph_is_named_and_is_the_last() -> None:
    log: list[str] = []
    told: list[str] = []
    steps = [
        Step("fine", None, True, log),
        Step("guilty", add_output, True, log),
        Step("c", log=log),
    ]
    with pytest.raises(GraphError, match="the pass 'guilty' left a graph with 1 fault") as caught:
        run_passes(Graph("g"), steps, finished=lambda name, did, ms: told.append(name))
    assert caught.value.code == "PASS_BROKE_GRAPH"
    assert [p.where for p in caught.value.problems] == ["tensor 'lost'"]
    assert log == ["fine", "guilty"]
    assert told == ["fine"]


def test_a_pass_may_go_through_broken_states() -> None:
    def both(graph: Graph) -> None:
        add_output(graph)
        produce(graph)

    graph = Graph("g")
    assert run_passes(graph, [Step("a", both), Step("b", both)])
    assert len(graph.nodes) == 2


def test_the_check_may_be_a_stricter_one() -> None:
    def nothing_goes(graph: Graph) -> list[Problem]:
        return [Problem("a"), Problem("b")]

    with pytest.raises(GraphError, match="'x' left a graph with 2 fault"):
        run_passes(Graph("g"), [Step("quiet", changes=False), Step("x")], check=nothing_goes)


def test_a_pass_that_fails_is_named_and_its_error_stays_what_it_is() -> None:
    def fail(graph: Graph) -> None:
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError, match="a bug") as caught:
        run_passes(Graph("g"), [Step("fine"), Step("guilty", fail)])
    assert caught.value.__notes__ == ["in the pass 'guilty' on graph 'g'"]


def test_a_pass_is_known_by_its_shape() -> None:
    assert isinstance(Step("a"), Pass)
    assert not isinstance(object(), Pass)
