"""Operator domains: ONNX's own spelled out, and domains that the model does not import."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from dovetail.errors import UnsupportedOpError

N = helper.make_node
X = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)


def peer(model, feeds):
    """Run a model on ONNX Runtime as it is written: shape inference knows fewer domains."""
    for output in model.graph.output:
        output.CopyFrom(helper.make_tensor_value_info(output.name, 1, None))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)


def spelled(model, domain):
    """Return a model with a local function, a branch, a definition and a constant part."""
    branch = helper.make_graph(
        [
            N("Constant", [], ["one"], value_float=1.0, domain=domain),
            N("Add", ["c", "one"], ["r"], domain=domain),
        ],
        "branch",
        [],
        [helper.make_tensor_value_info("r", 1, None)],
    )
    nodes = [
        N("Constant", [], ["two"], value_float=2.0, domain=domain),
        N("Mul", ["two", "two"], ["four"], domain=domain),  # computed at import
        N("Add", ["x", "four"], ["sum"]),
        N("Constant", [], ["yes"], value_int=1, domain=domain),
        N("Cast", ["yes"], ["is"], to=9, domain=domain),
        N("Celu", ["sum"], ["c"], domain=domain),  # written out by its definition
        N("If", ["is"], ["i"], domain=domain, then_branch=branch, else_branch=branch),
        N("Twice", ["i"], ["y"], domain="mine"),
    ]
    opsets = [helper.make_opsetid(domain, 17)]
    add = N("Add", ["a", "a"], ["b"], domain=domain)
    twice = helper.make_function("mine", "Twice", ["a"], ["b"], [add], opsets)
    opsets = [*opsets, helper.make_opsetid("mine", 1)]
    return model(nodes, {"x": X}, ["y"], opset_imports=opsets, functions=[twice])


def test_onnx_s_own_domain_may_be_spelled_out(model, read, evaluate) -> None:
    (found,) = evaluate(read(spelled(model, "ai.onnx")), {"x": X}).values()
    # ONNX Runtime itself knows no 'ai.onnx' inside of branches
    (wanted,) = peer(spelled(model, ""), {"x": X})
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("within", [False, True], ids=["graph", "function"])
def test_a_domain_that_is_not_imported_counts_as_version_1(model, read, evaluate, within) -> None:
    gelu = N("Gelu", ["x"], ["y"], domain="com.microsoft")
    opsets = [helper.make_opsetid("", 17)]
    plain = made = model([gelu], {"x": X}, ["y"], opset_imports=opsets)
    if within:  # which ONNX Runtime refuses
        function = helper.make_function("mine", "F", ["x"], ["y"], [gelu], opsets)
        call = N("F", ["x"], ["y"], domain="mine")
        opsets = [*opsets, helper.make_opsetid("mine", 1)]
        made = model([call], {"x": X}, ["y"], opset_imports=opsets, functions=[function])
    (found,) = evaluate(read(made), {"x": X}).values()
    (wanted,) = peer(plain, {"x": X})
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)  # another erf


def test_onnx_s_own_domain_has_no_default_version(model, read) -> None:
    made = model(
        [N("Relu", ["x"], ["y"])], {"x": X}, ["y"], opset_imports=[helper.make_opsetid("mine", 1)]
    )
    with pytest.raises(UnsupportedOpError, match="operator set 0 has no operator 'Relu'"):
        read(made)


def test_operators_for_the_layouts_of_one_processor(model, read) -> None:
    """What a session saves at its default level, wherever channels are a multiple of its blocks."""
    domain = "com.microsoft.nchwc"
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    nodes = [
        N("ReorderInput", ["x"], ["b"], domain=domain),
        N("GlobalAveragePool", ["b"], ["p"], domain=domain),
        N("ReorderOutput", ["p"], ["y"], domain=domain, channels=16),
    ]
    image = np.ones((1, 16, 4, 4), np.float32)
    with pytest.raises(UnsupportedOpError) as caught:
        read(model(nodes, {"x": image}, ["y"], opset_imports=opsets))
    assert len(caught.value.problems) == 3
    for problem in caught.value.problems:
        assert "optimized the model for the layouts of one processor" in problem.message
        assert "ORT_ENABLE_EXTENDED or a lower one" in problem.hint
