"""Own, inherited and total errors of nodes, on graphs whose faults are planted."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.errors import ConfigError, OpError
from dovetail.ir import Array, DType, Graph, Node, Tensor, TensorKind
from dovetail.verification import (
    Cause,
    Comparison,
    ConfiguredVerifier,
    NodeErrors,
    RunPair,
    configure,
    node_errors,
)

Values = Mapping[str, Array]
OPS: dict[str, Callable[..., Array]] = {
    "Add": np.add,
    "Double": lambda x: 2 * x,
    "Sign": np.sign,
    "Split": lambda x: (x[:1], x[1:]),
}


class Difference:
    """The sum of the signed differences, which adds up over own and inherited errors."""

    def __init__(self, *, threshold: float = 0.1) -> None:
        self.threshold, self.sum = threshold, 0.0

    def update(self, golden: Array, target: Array) -> None:
        self.sum += float(np.sum(target - golden))

    def finish(self) -> Comparison:
        return Comparison(abs(self.sum) <= self.threshold, self.sum, self.threshold)


class Pair(Difference):
    def update(self, golden: Array, target: Array, golden_2: Array, target_2: Array) -> None: ...  # type: ignore[override]


DIFFERENCE = configure(Difference)


def graph_of(
    *nodes: tuple[str, str, list[str], list[str]], inputs: tuple[str, ...] = ("x",)
) -> Graph:
    graph = Graph("g")
    tensors: dict[str, Tensor] = {}
    for name in inputs:
        tensors[name] = graph.add_tensor(Tensor(name, DType.FLOAT_32, (2,), TensorKind.APP_WRITE))
    constant = Tensor.static("c", np.ones(2, np.float32))
    tensors["c"] = graph.add_tensor(constant)
    for name, op, reads, writes in nodes:
        for tensor in writes:
            tensors[tensor] = graph.add_tensor(Tensor(tensor, DType.FLOAT_32, (2,)))
        given = [tensors[r] for r in reads]
        graph.add_node(Node(name, "test", op, given, [tensors[w] for w in writes]))
    return graph


def runner(faults: Mapping[str, float] | None = None, calls: list[str] | None = None) -> Any:
    """Return a runner of single nodes that adds a number to the outputs of faulty ones."""

    def run(node: Node, inputs: Values) -> Values:
        if calls is not None:
            calls.append(node.name)
        assert "c" not in inputs
        read = [np.ones(2) if t.kind.is_static else inputs[t.name] for t in node.inputs if t]
        found = OPS[node.op_type](*read)
        found = found if isinstance(found, tuple) else (found,)
        fault = (faults or {}).get(node.name, 0.0)
        return {t.name: a + fault for t, a in zip(node.outputs, found, strict=True)}

    return run


def run_all(graph: Graph, inputs: Values, run: Any) -> dict[str, Array]:
    values = dict(inputs)
    for node in graph.nodes:
        read = {
            t.name: values[t.name] for t in node.inputs if t is not None and not t.kind.is_static
        }
        values |= run(node, read)
    return values


def chain(length: int) -> Graph:
    names = ["x", *(f"t{i}" for i in range(length))]
    return graph_of(*((f"n{i}", "Double", [names[i]], [names[i + 1]]) for i in range(length)))


X = {"x": np.array([1.0, 2])}


def causes(found: list[NodeErrors]) -> list[Cause]:
    return [output.cause for each in found for output in each.outputs]


def errors(
    graph: Graph, faults: Mapping[str, float], *, whole: bool, verifier: Any = DIFFERENCE
) -> list[NodeErrors]:
    reference = run_all(graph, X, runner())
    target = run_all(graph, X, runner(faults)) if whole else None
    return list(node_errors(graph, [RunPair(reference, target)], runner(faults), verifier))


@pytest.mark.parametrize("whole", [True, False])
def test_the_faulty_node_is_told_from_those_after_it(whole: bool) -> None:
    found = errors(chain(5), {"n2": 1.0}, whole=whole)
    expected = [Cause.NONE, Cause.NONE, Cause.OWN, Cause.INHERITED, Cause.INHERITED]
    assert causes(found) == expected
    output = found[3].outputs[0]
    assert output.total is not None
    assert output.own is not None
    assert output.inherited is not None
    assert (output.total.value, output.own.value, output.inherited.value) == (4, 0, 4)
    assert all(not each.missing and not each.failures for each in found)


@given(
    st.dictionaries(st.sampled_from([f"n{i}" for i in range(4)]), st.integers(-3, 3)),
    st.booleans(),
)
def test_own_and_inherited_errors_add_up(faults: dict[str, float], whole: bool) -> None:
    graph = graph_of(
        ("n0", "Double", ["x"], ["a"]),
        ("n1", "Sign", ["a"], ["b"]),
        ("n2", "Add", ["a", "b"], ["d"]),
        ("n3", "Add", ["d", "c"], ["e"]),
    )
    for each in errors(graph, faults, whole=whole):
        (output,) = each.outputs
        total, own, inherited = output.total, output.own, output.inherited
        assert total is not None
        assert own is not None
        assert inherited is not None
        assert total.value == own.value + inherited.value
        assert own.value == 2 * faults.get(each.node.name, 0)


def test_a_node_may_hide_what_it_inherits() -> None:
    graph = graph_of(("n0", "Double", ["x"], ["a"]), ("n1", "Sign", ["a"], ["b"]))
    assert causes(errors(graph, {"n0": 0.5}, whole=True)) == [Cause.OWN, Cause.NONE]


def test_small_errors_accumulate() -> None:
    graph = graph_of(("n0", "Add", ["x", "c"], ["a"]), ("n1", "Add", ["a", "c"], ["b"]))
    found = errors(graph, {"n0": 0.04, "n1": 0.04}, whole=True)
    assert causes(found) == [Cause.NONE, Cause.ACCUMULATED]


def test_samples_are_compared_together() -> None:
    graph = chain(2)
    runs = [RunPair(run_all(graph, {"x": np.full(2, float(i))}, runner())) for i in range(3)]
    found = list(node_errors(graph, runs, runner({"n0": 1.0}), DIFFERENCE))
    total = found[1].outputs[0].total
    assert total is not None
    assert (total.value, total.elements) == (12, 6)


def test_each_output_has_its_errors() -> None:
    graph = graph_of(("n0", "Split", ["x"], ["a", "b"]))
    reference = run_all(graph, X, runner())
    target = {"a": reference["a"], "b": reference["b"] + 1}
    chosen: list[str] = []

    def choose(tensor: Tensor) -> ConfiguredVerifier:
        chosen.append(tensor.name)
        return configure(Difference, {"threshold": 2})

    (found,) = node_errors(graph, [RunPair(reference, target)], runner(), choose)
    assert [o.tensor.name for o in found.outputs] == chosen == ["a", "b"]
    assert [o.total.value for o in found.outputs if o.total] == [0, 1]


def test_a_search_runs_no_node_after_the_one_found() -> None:
    graph, calls = chain(6), list[str]()
    pair = RunPair(run_all(graph, X, runner()))
    for each in node_errors(graph, [pair], runner({"n1": 1.0}, calls), DIFFERENCE):
        if each.outputs[0].cause is Cause.OWN:
            break
    assert calls == ["n0", "n1"]  # from equal inputs, a node runs once


def test_missing_values_are_named_and_not_guessed() -> None:
    graph = chain(3)
    reference = run_all(graph, X, runner())
    del reference["t1"]
    found = list(node_errors(graph, [RunPair(reference)], runner(), DIFFERENCE))
    assert causes(found) == [Cause.NONE, Cause.UNKNOWN, Cause.NONE]
    assert [each.missing for each in found] == [(), ("t1",), ("t1",)]
    total = found[2].outputs[0].total
    assert total is not None  # the target's run does not need the reference's value


@pytest.mark.parametrize("whole", [True, False])
def test_nodes_that_only_the_target_has_are_no_gap(whole: bool) -> None:
    """A Convert that quantization put before a node, and the node's error because of it."""
    graph = graph_of(
        ("n0", "Double", ["x"], ["a"]),
        ("convert", "Sign", ["a"], ["a.convert"]),
        ("n1", "Double", ["a.convert"], ["b"]),
        ("n2", "Double", ["b"], ["y"]),
    )
    graph.nodes[1].sources = ()
    reference = run_all(graph, X, runner())
    del reference["a.convert"]
    reference |= {"b": 2 * reference["a"], "y": 4 * reference["a"]}
    target = run_all(graph, X, runner()) if whole else None
    found = list(node_errors(graph, [RunPair(reference, target)], runner(), DIFFERENCE))
    assert causes(found) == [Cause.NONE, Cause.NONE, Cause.OWN, Cause.INHERITED]
    assert not any(each.missing for each in found)


def test_graph_inputs_are_known_even_if_another_input_is_missing() -> None:
    graph = graph_of(("n0", "Double", ["x"], ["a"]), ("n1", "Add", ["x", "a"], ["b"]))
    reference = run_all(graph, X, runner())
    del reference["a"]
    found = list(node_errors(graph, [RunPair(reference)], runner({"n1": 1.0}), DIFFERENCE))
    output = found[1].outputs[0]
    assert output.own is None
    assert output.total is not None
    assert output.total.value == 2


def test_a_target_that_lacks_values_has_own_errors() -> None:
    graph = chain(2)
    pair = RunPair(run_all(graph, X, runner()), {})
    found = list(node_errors(graph, [pair], runner({"n1": 1.0}), DIFFERENCE))
    assert causes(found) == [Cause.UNKNOWN, Cause.OWN]
    assert [each.missing for each in found] == [("t0",), ("t1",)]


def test_a_node_that_fails_does_not_end_the_search() -> None:
    graph = chain(3)

    def run(node: Node, inputs: Values) -> Values:
        if node.name == "n1":
            raise OpError("not alone")
        return dict(runner()(node, inputs))

    found = list(node_errors(graph, [RunPair(run_all(graph, X, runner()))], run, DIFFERENCE))
    assert causes(found) == [Cause.NONE, Cause.UNKNOWN, Cause.UNKNOWN]
    assert [f.message for f in found[1].failures] == ["not alone"]
    own = found[2].outputs[0].own
    assert own is not None
    assert own.passed  # it runs on the reference's inputs
    assert found[2].missing == ("t1",)


def test_values_of_other_shapes_are_a_failure_of_the_node() -> None:
    graph = chain(1)
    reference = run_all(graph, X, runner())
    target = {"t0": reference["t0"].reshape(2, 1)}
    (found,) = node_errors(graph, [RunPair(reference, target)], runner(), DIFFERENCE)
    assert "(2,) and (2, 1)" in found.failures[0].message
    assert found.outputs[0].cause is Cause.UNKNOWN


def test_verifiers_of_several_tensors_are_rejected() -> None:
    graph = chain(1)
    with pytest.raises(ConfigError, match="reads 2 tensors together"):
        list(node_errors(graph, [RunPair({})], runner(), configure(Pair)))


def test_values_are_dropped_after_their_last_use() -> None:
    alive: list[int] = []
    graph = chain(50)
    reference = run_all(graph, X, runner())
    made: list[weakref.ref[Any]] = []

    def run(node: Node, inputs: Values) -> Values:
        alive.append(sum(1 for ref in made if ref() is not None))
        found = dict(runner({"n0": 1.0})(node, inputs))
        made.extend(weakref.ref(a) for a in found.values())
        return found

    list(node_errors(graph, [RunPair(reference)], run, DIFFERENCE))
    assert max(alive) <= 4
