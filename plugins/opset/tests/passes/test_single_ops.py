"""Ops by number become the single op that says the same, for every number."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dovetail.ir import DType, Spec, Tensor, TensorKind, find_faults
from dovetail_opset.build import add
from dovetail_opset.ops.activation import Neuron
from dovetail_opset.ops.binary import Binary
from dovetail_opset.ops.unary import Unary
from dovetail_opset.passes import SingleOps

Evaluate = Callable[..., Any]
# The names that are not "ElementWise" and the name of the number in capitals without underscores.
NAMES = {"Sqrt": "SquareRoot"}
ALONE = ("Elu", "Gelu", "HardSwish", "Relu", "ReluMinMax", "Sigmoid", "Tanh")
NUMBERED = [
    *(("ElementWiseUnary", n) for n in Unary),
    *(("ElementWiseBinary", n) for n in Binary),
    *(("ElementWiseNeuron", n) for n in Neuron),
]
NO_OP = (("ElementWiseUnary", Unary.RECIPROCAL), ("ElementWiseNeuron", Neuron.HARD_SIGMOID))


def single_name(number: Any) -> str:
    camel = "".join(part.title() for part in number.name.split("_"))
    return camel if camel in ALONE else f"ElementWise{NAMES.get(camel, camel)}"


@pytest.mark.parametrize(("op_type", "number"), NUMBERED)
def test_each_number_means_its_single_op(
    net: Any, evaluate: Evaluate, op_type: str, number: Any
) -> None:
    params: dict[str, Any] = {"operation": int(number)}
    if number is Neuron.RELU_MIN_MAX:
        params |= {"min_value": 0.25, "max_value": 0.75}
    inputs = [net.x, net.constant(5, 4)] if op_type == "ElementWiseBinary" else [net.x]
    if number is Binary.MOD:  # of integers alone
        pair = [net.step("ElementWiseMultiply", net.x, net.number(20)), net.number(3, 4)]
        inputs = [net.step("Cast", t, spec=Spec(DType.INT_32, t.shape)) for t in pair]
    others = net.ops()
    has_op = (op_type, number) not in NO_OP
    y = net.step(op_type, *inputs, **params)
    y.kind = TensorKind.APP_READ
    feed = {"x": np.random.default_rng(0).uniform(0.1, 0.9, net.x.shape).astype(np.float32)}
    before = evaluate(net.graph, feed)[y.name]
    spec = y.spec
    assert SingleOps().run(net.graph) == has_op
    assert not find_faults(net.graph)
    assert net.ops() == [*others, single_name(number) if has_op else op_type]
    assert y.spec == spec
    np.testing.assert_array_equal(evaluate(net.graph, feed)[y.name], before)
    net.untouched(SingleOps())


@pytest.mark.parametrize(
    ("number", "params"),
    [
        (Neuron.ELU, {"alpha": 0.5}),
        (Neuron.SOFTPLUS, {"beta": 2.0, "threshold": 1.0}),
        (Neuron.SOFTPLUS, {"beta": 0.5}),
        (Neuron.GELU, {"alpha": 3.0}),  # which says nothing
    ],
)
def test_params_that_count_go_along(
    net: Any, evaluate: Evaluate, number: Neuron, params: dict[str, float]
) -> None:
    y = net.step("ElementWiseNeuron", net.x, operation=int(number), **params)
    assert net.check(y, SingleOps(), evaluate) == [single_name(number)]


def test_a_comparison_keeps_the_type_that_is_declared(net: Any, evaluate: Evaluate) -> None:
    out = Tensor("y", DType.INT_32, net.x.shape, TensorKind.APP_READ)
    inputs, number = [net.x, net.constant(4)], int(Binary.GREATER)
    y = add(net.graph, "ElementWiseBinary", inputs, name="c", outputs=out, operation=number)
    assert net.check(y, SingleOps(), evaluate) == ["ElementWiseGreater"]
    assert y.spec == Spec(DType.INT_32, net.x.shape)


def test_names_and_sources_stay(net: Any) -> None:
    net.step("ElementWiseUnary", net.x, operation=int(Unary.ABS))
    node = net.graph.nodes[0]
    node.sources = ("a", "b")
    SingleOps().run(net.graph)
    assert (net.graph.nodes[0].name, net.graph.nodes[0].sources) == (node.name, ("a", "b"))
