"""Model-local functions are inlined; those that cannot be are refused before they grow."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from dovetail.errors import FrontendError

N = helper.make_node
OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
X = np.linspace(-2, 2, 8, dtype=np.float32)


def function(name, nodes, attributes=()):
    return helper.make_function("local", name, ["a"], ["b"], nodes, OPSETS, list(attributes))


def with_functions(model, functions, first):
    node = N(first, ["x"], ["y"], name="call", domain="local")
    return model([node], {"x": X}, ["y"], opset_imports=OPSETS, functions=functions)


def test_functions_within_functions(agree, model) -> None:
    inner = function("Inner", [N("Relu", ["a"], ["r"]), N("Neg", ["r"], ["b"])])
    call = N("Inner", ["a"], ["t"], domain="local")
    outer = function("Outer", [call, N("Exp", ["t"], ["b"])])
    graph = agree(with_functions(model, [inner, outer], "Outer"), {"x": X})
    assert [n.op_type for n in graph.nodes] == ["Relu", "ElementWiseNeg", "ElementWiseExp"]


def test_attributes_of_the_call_reach_the_nodes(agree, model) -> None:
    elu = N("Elu", ["a"], ["b"])
    reference = elu.attribute.add(name="alpha", ref_attr_name="strength", type=1)
    assert reference.ref_attr_name == "strength"
    made = with_functions(model, [function("Bend", [elu], ["strength"])], "Bend")
    made.graph.node[0].attribute.append(helper.make_attribute("strength", 0.25))
    graph = agree(made, {"x": X})
    assert graph.nodes[0].params["alpha"].value == 0.25


def test_attributes_have_defaults(agree, model) -> None:
    """In the call of the graph, in another function, and not where the call has a value."""
    elu = N("Elu", ["a"], ["b"])
    elu.attribute.add(name="alpha", ref_attr_name="strength", type=1)
    bend = function("Bend", [elu])
    bend.attribute_proto.append(helper.make_attribute("strength", 0.25))
    twice = [N("Bend", ["a"], ["t"], domain="local"), N("Neg", ["t"], ["b"])]
    made = with_functions(model, [bend, function("Twice", twice)], "Bend")
    made.graph.node[0].output[0] = "first"
    made.graph.node.append(N("Twice", ["first"], ["second"], domain="local"))
    made.graph.node.append(N("Bend", ["second"], ["y"], domain="local", strength=0.75))
    graph = agree(made, {"x": X})
    bends = [n.params["alpha"].value for n in graph.nodes if n.op_type == "Elu"]
    assert bends == [0.25, 0.25, 0.75]


def test_defaults_of_attributes_that_a_caller_does_not_pass_on(agree, model) -> None:
    elu = N("Elu", ["a"], ["b"])
    elu.attribute.add(name="alpha", ref_attr_name="strength", type=1)
    bend = function("Bend", [elu])
    bend.attribute_proto.append(helper.make_attribute("strength", 0.25))
    call = N("Bend", ["a"], ["b"], domain="local")
    call.attribute.add(name="strength", ref_attr_name="given", type=1)
    made = with_functions(model, [bend, function("Pass", [call], ["given"])], "Pass")
    made.graph.node[0].output[0] = "first"
    made.graph.node.append(N("Pass", ["first"], ["second"], domain="local", given=0.5))
    made.graph.node.append(N("Bend", ["second"], ["y"], domain="local", strength=0.75))
    graph = agree(made, {"x": X})
    assert [node.params["alpha"].value for node in graph.nodes] == [0.25, 0.5, 0.75]


def test_nested_functions_of_another_opset(agree, model) -> None:
    """The inner one is converted by the type of what another call in the outer one returns."""
    inner = function("Soft", [N("Softmax", ["a"], ["b"], axis=0)])
    calls = [N("Soft", [x], [y], domain="local") for x, y in ("am", "mb")]
    outer = function("Outer", calls)
    for made in (inner, outer):
        made.opset_import[0].version = 11
    agree(with_functions(model, [inner, outer], "Outer"), {"x": X})


def test_functions_of_another_opset_on_a_functions_result(agree, model) -> None:
    made = function("Soft", [N("Softmax", ["a"], ["s"], axis=0), N("Neg", ["s"], ["b"])])
    made.opset_import[0].version = 11
    made = with_functions(model, [made], "Soft")
    made.graph.node[0].output[0] = "t"
    made.graph.node.append(N("Soft", ["t"], ["y"], domain="local"))
    agree(made, {"x": X})


def test_what_is_converted_in_each_call(read, evaluate, model) -> None:
    """The axes become an input, a constant, whose names must differ."""
    mean = N("ReduceMean", ["a"], ["m"], axes=[0], keepdims=1)
    made = function("Center", [mean, N("Sub", ["a", "m"], ["b"])])
    twice = function("Twice", [N("Center", [x], [y], domain="local") for x, y in ("at", "tb")])
    for each in (made, twice):
        each.opset_import[0].version = 13
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    calls = [
        N("Center", ["x"], ["t"], domain="local"),
        N("Exp", ["t"], ["e"]),
        N("Twice", ["e"], ["f"], domain="local"),
        N("Center", ["f"], ["y"], domain="local"),
    ]
    whole = model(calls, {"x": X}, ["y"], opset_imports=opsets, functions=[made, twice])
    (found,) = evaluate(read(whole), {"x": X}).values()

    def centered(values):
        return values - values.mean()

    wanted = centered(centered(centered(np.exp(centered(X)))))
    # sums of 8 numbers in float32
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("opset", [11, 13, 18])
def test_functions_of_other_opsets(agree, model, opset) -> None:
    made = function("Soft", [N("Softmax", ["a"], ["s"], axis=0), N("Neg", ["s"], ["b"])])
    made.opset_import[0].version = opset
    agree(with_functions(model, [made], "Soft"), {"x": X})


def test_functions_of_another_opset_with_initializers_as_arguments(agree, model) -> None:
    """The converter needs the types of all arguments of the call."""
    older = [helper.make_opsetid("", 13), *OPSETS[1:]]
    nodes = [N("Mul", ["a", "scale"], ["m"]), N("Clip", ["m", "low"], ["b"])]
    made = helper.make_function("local", "Bound", ["a", "scale", "low"], ["b"], nodes, older)
    call = N("Bound", ["x", "s", "l"], ["y"], domain="local")
    constants = {"s": np.full(8, 2, np.float32), "l": np.array(0.5, np.float32)}
    whole = model([call], {"x": X}, ["y"], constants, opset_imports=OPSETS, functions=[made])
    agree(whole, {"x": X})


@pytest.mark.parametrize("chain", [["A"], ["A", "B", "C"]])
def test_functions_that_call_themselves(model, read, chain) -> None:
    functions = [
        function(name, [N(chain[(i + 1) % len(chain)], ["a"], ["b"], domain="local")])
        for i, name in enumerate(chain)
    ]
    with pytest.raises(FrontendError, match="calls itself"):
        read(with_functions(model, functions, "A"))


def test_functions_that_multiply(model, read) -> None:
    # 3 calls each, 40 deep: more nodes than anything can hold
    functions = [function("F0", [N("Relu", ["a"], ["b"])])]
    for i in range(1, 41):
        calls = [N(f"F{i - 1}", [s], [t], domain="local") for s, t in ("ac", "cd", "db")]
        functions.append(function(f"F{i}", calls))
    with pytest.raises(FrontendError, match="more than 21220 nodes"):
        read(with_functions(model, functions, "F40"))


def test_functions_over_many_levels(model, read) -> None:
    functions = [function("F0", [N("Relu", ["a"], ["b"])])]
    functions[0].attribute_proto.append(helper.make_attribute("unused", 1.0))
    for i in range(1, 101):
        functions.append(function(f"F{i}", [N(f"F{i - 1}", ["a"], ["b"], domain="local")]))
    graph = read(with_functions(model, functions[:100], "F99"))
    assert [node.op_type for node in graph.nodes] == ["Relu"]
    with pytest.raises(FrontendError, match="101 levels"):
        read(with_functions(model, functions, "F100"))
