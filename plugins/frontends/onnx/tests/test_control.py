"""If, Loop and Scan, written out; and operators that ONNX defines by others."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from dovetail.errors import FrontendError, UnsupportedOpError

F32 = np.float32
N = helper.make_node
FLOATS, INTS = TensorProto.FLOAT, TensorProto.INT64


def body(name, nodes, inputs, outputs, constants=None):
    """Return a graph to be carried; inputs are (name, element type, shape)."""
    infos = [helper.make_tensor_value_info(*given) for given in inputs]
    kinds = {"again": TensorProto.BOOL}
    outs = [helper.make_tensor_value_info(o, kinds.get(o, FLOATS), None) for o in outputs]
    arrays = [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()]
    return helper.make_graph(nodes, name, infos, outs, arrays)


@pytest.fixture
def same(model, read, evaluate, run_peer):
    """Compare a model with the peer, and return the graph."""

    def run(nodes, feeds, outputs, constants=None, *, opset=17):
        made = model(nodes, feeds, outputs, constants, opset=opset)
        graph = read(made)
        found = evaluate(graph, feeds)
        for name, want in run_peer(made, feeds).items():
            np.testing.assert_allclose(found[name], want, rtol=1e-6, err_msg=name)
        return graph

    return run


def branches(condition="c"):
    """Return an If: the sum with 1, or what is around it, doubled."""
    then = body("then", [N("Add", ["x", "one"], ["t"])], [], ["t"], {"one": np.ones(1, F32)})
    other = body("else", [N("Add", ["x", "x"], ["e"])], [], ["e"])
    return N("If", [condition], ["y"], name="choice", then_branch=then, else_branch=other)


@pytest.mark.parametrize("taken", [True, False])
def test_only_the_branch_that_is_taken_is_read(same, taken) -> None:
    x = np.arange(3, dtype=F32)
    graph = same([branches()], {"x": x}, ["y"], {"c": np.array(taken)})
    (node,) = (n for n in graph.nodes if n.op_type == "ElementWiseAdd")
    assert node.sources == ("choice",)
    assert node.name.startswith("choice.then." if taken else "choice.else.")


def test_a_condition_may_be_a_shape(same) -> None:
    nodes = [N("Size", ["x"], ["n"]), N("Greater", ["n", "two"], ["c"]), branches()]
    same(nodes, {"x": np.ones(3, F32)}, ["y"], {"two": np.array(2)})


def test_a_choice_that_data_make_is_refused(model, read) -> None:
    feeds = {"x": np.ones(3, F32), "c": np.array(True)}
    with pytest.raises(
        UnsupportedOpError,
        match="condition 'c' is computed from the model's inputs; it must be known when",
    ) as caught:
        read(model([branches()], feeds, ["y"]))
    assert caught.value.inputs == ("c",)
    assert "split the model there" in caught.value.problems[0].hint


@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_choice_by_real_numbers_runs_both_branches(
    model, read, evaluate, run_peer, caplog, shape
):
    """Also where one branch gives what is not finite, and another branch is within it."""
    deeper = body("deeper", [N("Log", ["x"], ["d"])], [], ["d"])
    plain = body("plain", [N("Neg", ["x"], ["p"])], [], ["p"])
    inner = N("If", ["low"], ["i"], name="inner", then_branch=plain, else_branch=deeper)
    constants = {"zero": np.zeros(shape, F32), "axes": np.array([0])}
    then = body("then", [inner, N("Identity", ["x"], ["same"])], [], ["i", "same"])
    other = body("else", [N("Exp", ["x"], ["e"]), N("Sub", ["e", "x"], ["f"])], [], ["e", "f"])
    nodes = [
        N("ReduceSum", ["x", "axes"], ["total"], keepdims=len(shape)),
        N("Greater", ["total", "zero"], ["c"]),
        N("ReduceMin", ["x"], ["least"], keepdims=len(shape)),
        N("Less", ["least", "zero"], ["low"]),
        N("If", ["c"], ["y", "z"], name="choice", then_branch=then, else_branch=other),
    ]
    x = np.array([1, -2, 3], F32)
    made = model(nodes, {"x": x}, ["y", "z"], constants)
    graph = read(made)
    for feed in (x, -x, abs(x)):
        found = evaluate(graph, {"x": feed})
        for name, want in run_peer(made, {"x": feed}).items():
            np.testing.assert_allclose(found[name], want, rtol=1e-6, err_msg=name)
    assert [m for m in caplog.messages if "both branches run" in m] == [
        f"If node '{name}': condition '{c}' is computed from data, so both branches run"
        for name, c in (("choice.then.inner", "low"), ("choice", "c"))
    ]


@pytest.mark.parametrize(
    ("node", "why"),
    [
        (N("Concat", ["x", "x"], ["e"], axis=0), r"output 0 is FLOAT_32 \(3,\) or FLOAT_32 \(6,\)"),
        (N("Cast", ["x"], ["e"], to=TensorProto.INT32), r"output 0 is FLOAT_32 \(3,\) or INT_32"),
        (N("SequenceConstruct", ["x"], ["e"]), "output 0 is a sequence"),
    ],
)
def test_branches_by_real_numbers_whose_outputs_differ(model, read, node, why) -> None:
    then = body("then", [N("Neg", ["x"], ["t"])], [], ["t"])
    nodes = [
        N("ReduceMax", ["x"], ["most"], keepdims=0),
        N("Greater", ["most", "most"], ["c"]),
        N("If", ["c"], ["y"], then_branch=then, else_branch=body("else", [node], [], ["e"])),
    ]
    with pytest.raises(UnsupportedOpError, match=f"condition 'c' is computed .* because {why}"):
        read(model(nodes, {"x": np.ones(3, F32)}, ["y"]))


def test_a_choice_by_several_numbers(model, read) -> None:
    nodes = [N("Greater", ["x", "x"], ["c"]), branches()]
    with pytest.raises(FrontendError, match=r"'c' must be a single number, got the shape \(3,\)"):
        read(model(nodes, {"x": np.ones(3, F32)}, ["y"]))


def loop(count="n", condition=""):
    """Return a Loop that adds what is around it and keeps each sum and the turn's number."""
    nodes = [
        N("Identity", ["going"], ["again"]),
        N("Add", ["before", "x"], ["after"]),
        N("Cast", ["i"], ["turn"], to=FLOATS),
        N("Mul", ["after", "turn"], ["row"]),
    ]
    inputs = [("i", INTS, []), ("going", TensorProto.BOOL, []), ("before", FLOATS, [3])]
    made = body("body", nodes, inputs, ["again", "after", "row"])
    return N("Loop", [count, condition, "start"], ["sum", "rows"], name="turns", body=made)


def test_turns_of_a_known_number(same) -> None:
    feeds = {"x": np.arange(3, dtype=F32), "start": np.ones(3, F32)}
    same([loop()], feeds, ["sum", "rows"], {"n": np.array(4)})


def test_a_loop_in_a_branch(same) -> None:
    inner = loop()
    then = body("then", [inner], [], ["sum", "rows"], {"n": np.array(2)})
    other = body("else", [N("Neg", ["x"], ["a"]), N("Neg", ["x"], ["b"])], [], ["a", "b"])
    node = N("If", ["c"], ["y", "z"], then_branch=then, else_branch=other)
    feeds = {"x": np.arange(3, dtype=F32), "start": np.ones(3, F32)}
    same([node], feeds, ["y", "z"], {"c": np.array(True)}, opset=11)


def test_no_turn_leaves_the_state(model, read, evaluate) -> None:
    feeds = {"x": np.arange(3, dtype=F32), "start": np.ones(3, F32)}
    made = model([loop()], feeds, ["sum", "rows"], {"n": np.array(0)})
    with pytest.raises(UnsupportedOpError, match="has no iteration"):
        read(made)
    del made.graph.node[0].output[1], made.graph.output[1]
    np.testing.assert_array_equal(evaluate(read(made), feeds)["sum"], feeds["start"])


def test_too_many_turns(model, read) -> None:
    feeds = {"x": np.arange(3, dtype=F32), "start": np.ones(3, F32)}
    nodes = [N("Identity", ["going"], ["again"]), *[N("Identity", ["b"], [f"b{i}"]) for i in "xyz"]]
    inputs = [("i", INTS, []), ("going", TensorProto.BOOL, []), ("b", FLOATS, [3])]
    # every turn has 4 nodes that cost nothing: the bound alone ends it
    made = body("body", nodes, inputs, ["again", "bz"])
    node = N("Loop", ["n", "", "start"], ["y"], body=made)
    with pytest.raises(UnsupportedOpError, match="more than 10000 nodes"):
        read(model([node], feeds, ["y"], {"n": np.array(2**62)}))


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_scan(model, read, evaluate, rng, axis, reverse) -> None:
    nodes = [N("Add", ["s", "v"], ["t"]), N("Mul", ["t", "around"], ["row"])]
    made = body("body", nodes, [("s", FLOATS, [3]), ("v", FLOATS, [3])], ["t", "row"])
    node = N(
        "Scan",
        ["start", "x"],
        ["sum", "rows"],
        body=made,
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_input_directions=[reverse],
        scan_output_axes=[axis],
        scan_output_directions=[reverse],
    )
    x = rng.normal(size=(4, 3) if axis == 0 else (3, 4)).astype(F32)
    feeds = {"start": np.zeros(3, F32), "x": x, "around": np.arange(3, dtype=F32)}
    found = evaluate(read(model([node], feeds, ["sum", "rows"])), feeds)
    # ONNX's own evaluator knows only the first axis and the forward direction
    state, rows = np.zeros(3, F32), [None] * 4
    for i in range(3, -1, -1) if reverse else range(4):
        state = state + np.take(x, i, axis)
        rows[i] = state * feeds["around"]
    np.testing.assert_allclose(found["sum"], state, rtol=1e-6)
    np.testing.assert_allclose(found["rows"], np.stack(rows, axis), rtol=1e-6)


def test_scan_over_several_lengths(model, read) -> None:
    made = body(
        "body", [N("Add", ["a", "b"], ["c"])], [("a", FLOATS, []), ("b", FLOATS, [])], ["c"]
    )
    node = N("Scan", ["x", "y"], ["z"], body=made, num_scan_inputs=2)
    with pytest.raises(FrontendError, match="differ in length"):
        read(model([node], {"x": np.ones(3, F32), "y": np.ones(4, F32)}, ["z"]))


def test_what_a_body_cannot_is_refused_once_for_all_turns(model, read) -> None:
    nodes = [N("Identity", ["going"], ["again"]), N("Nonesuch", ["b"], ["c"], domain="com.none")]
    inputs = [("i", INTS, []), ("going", TensorProto.BOOL, []), ("b", FLOATS, [3])]
    node = N("Loop", ["n", "", "x"], ["y"], body=body("body", nodes, inputs, ["again", "c"]))
    feeds = {"x": np.ones(3, F32)}
    with pytest.raises(UnsupportedOpError, match=r"com\.none") as caught:
        read(model([node], feeds, ["y"], {"n": np.array(3)}))
    assert len(caught.value.problems) == 1


def test_an_operator_without_an_importer_becomes_what_defines_it(check, rng) -> None:
    logits = rng.normal(size=(4, 3)).astype(F32)
    labels = np.array([0, 2, 1, 1])
    graph = check("SoftmaxCrossEntropyLoss", [logits, labels], opset=13, reduction="mean")
    assert len(graph.nodes) > 1
    assert all(node.name.startswith("the_node.") for node in graph.nodes[:-1])


def test_definitions_of_definitions(check, rng) -> None:
    q, k, v = (rng.normal(size=(2, 3, n, 8)).astype(F32) for n in (4, 6, 6))
    graph = check("Attention", [q, k, v], opset=23, is_causal=1, rtol=1e-4, atol=1e-5)
    assert {"MatMul", "Softmax"} <= {node.op_type for node in graph.nodes}


BROKEN = {
    "reads undefined tensors": [N("Add", ["b", "nothing"], ["c"])],
    "expected at least 2": [],
}


@pytest.mark.parametrize("said", BROKEN)
def test_bodies_that_are_wrong(model, read, said) -> None:
    inputs = [("i", INTS, []), ("again", TensorProto.BOOL, []), ("b", FLOATS, [3])]
    outputs = ["again", "c"] if BROKEN[said] else ["again"]
    made = body("body", BROKEN[said], inputs, outputs)
    node = N("Loop", ["n", "", "x"], ["y"], body=made)
    # a name that the body alone does not know is looked for around it
    feeds = {"x": np.ones(3, F32)}
    with pytest.raises(FrontendError, match=f"{said}|'nothing' is not defined in the model"):
        read(model([node], feeds, ["y"], {"n": np.array(2)}))


def test_unsorted_bodies(model, read) -> None:
    inputs = [("i", INTS, []), ("again", TensorProto.BOOL, []), ("b", FLOATS, [3])]
    nodes = [N("Neg", ["d"], ["c"]), N("Abs", ["b"], ["d"])]
    node = N("Loop", ["n", "", "x"], ["y"], body=body("body", nodes, inputs, ["again", "c"]))
    with pytest.raises(FrontendError, match="is not sorted"):
        read(model([node], {"x": np.ones(3, F32)}, ["y"], {"n": np.array(2)}))


def test_counts_are_one_number(model, read) -> None:
    feeds = {"x": np.ones(3, F32), "start": np.ones(3, F32)}
    with pytest.raises(
        FrontendError, match="trip count 'n' must be a single number, got 2 elements"
    ):
        read(model([loop()], feeds, ["sum", "rows"], {"n": np.array([1, 2])}))


def batched(model, feeds, *, backwards=0, constants=None):
    """Return a model of Scan of version 8: sums so far, and their halves."""
    nodes = [N("Add", ["s", "v"], ["t"]), N("Mul", ["t", "half"], ["row"])]
    made = body(
        "body",
        nodes,
        [("s", FLOATS, [3]), ("v", FLOATS, [3])],
        ["t", "row"],
        {"half": np.full(1, 0.5, F32)},
    )
    node = N(
        "Scan",
        ["lengths" if constants else "", "start", "x"],
        ["sum", "rows"],
        body=made,
        num_scan_inputs=1,
        directions=[backwards],
    )
    return model([node], feeds, ["sum", "rows"], constants, opset=8)


@pytest.mark.parametrize("backwards", [0, 1])
@pytest.mark.parametrize("constants", [None, {"lengths": np.array([4, 4])}])
def test_scan_of_a_batch(model, read, evaluate, rng, backwards, constants) -> None:
    feeds = {"start": rng.normal(size=(2, 3)).astype(F32), "x": rng.normal(size=(2, 4, 3))}
    feeds["x"] = feeds["x"].astype(F32)
    found = evaluate(read(batched(model, feeds, backwards=backwards, constants=constants)), feeds)
    turns = feeds["x"][:, ::-1] if backwards else feeds["x"]
    sums = feeds["start"][:, None] + turns.cumsum(1)
    np.testing.assert_allclose(found["sum"], sums[:, -1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["rows"], sums / 2, rtol=1e-5, atol=1e-6)


def test_scans_of_a_batch_that_are_refused(model, read) -> None:
    feeds = {"start": np.ones((2, 3), F32), "x": np.ones((2, 4, 3), F32)}
    with pytest.raises(
        UnsupportedOpError,
        match="unsupported sequences that end before the maximum of 4 iterations",
    ):
        read(batched(model, feeds, constants={"lengths": np.array([4, 3])}))
    with pytest.raises(FrontendError, match="the inputs must have the same batch"):
        read(batched(model, feeds | {"start": np.ones((1, 3), F32)}))
