"""Nodes against their ops: every fault of every node."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dovetail.errors import GraphError, OpError, Problem
from dovetail.ir import DType, Graph, Node, Param, Scalar, Spec, Tensor, TensorKind
from dovetail.ops import (
    In,
    Op,
    OpPackage,
    OpRegistry,
    Out,
    bind_node,
    check_ops,
    find_op_faults,
    input_specs,
    node_faults,
)

F32, U32, I32 = DType.FLOAT_32, DType.UINT_32, DType.INT_32
BY = {"by": Scalar(U32, 2)}


def scale(
    ins: list[Tensor | None], outs: list[Tensor], params: dict[str, Param] | None = None
) -> Node:
    given = BY if params is None else params
    return Node("n", "test.ops", "Scale", ins, outs, given, sources=["/Mul"])


def of(name: str, dtype: DType = F32, shape: tuple[int, ...] = (2, 3)) -> Tensor:
    return Tensor(name, dtype, shape)


NULL = Tensor("null", DType.UNDEFINED, (), TensorKind.NULL)
X, Y, INTS = of("x"), of("y"), of("i", I32)
FAULTY: list[tuple[Node, list[str]]] = [
    (scale([X], [Y]), []),
    (scale([X, None], [Y]), []),
    (scale([X, NULL], [Y]), []),
    (scale([X, of("b")], [Y]), []),
    (scale([None], [Y]), ["missing required input in[0]"]),
    (scale([NULL, X], [Y]), ["missing required input in[0]"]),
    (scale([X, INTS], [Y]), ["in[1] 'i' is INT_32; allowed: FLOAT_32"]),
    (scale([X, X, X], [Y]), ["has 3 inputs; test.ops::Scale takes 1 to 2"]),
    (
        scale([X, X, X], [], {"bye": Scalar(U32, 1)}),
        [
            "has 3 inputs; test.ops::Scale takes 1 to 2",
            "has 0 outputs; test.ops::Scale takes 1",
            "unknown param 'bye'; did you mean 'by'?",
            "missing required param 'by'",
        ],
    ),
    (
        scale([None, INTS], [Y], {"by": Scalar(F32, 1.0)}),
        [
            "missing required input in[0]",
            "in[1] 'i' is INT_32; allowed: FLOAT_32",
            "param 'by' is FLOAT_32; allowed: UINT_32",
        ],
    ),
    (
        scale([X], [of("y", F32, (3, 2))]),
        [
            "output 'y' is declared FLOAT_32 (3, 2), but test.ops::Scale returns FLOAT_32 (2, 3)",
        ],
    ),
    (scale([X, of("b", F32, (4,))], [Y]), ["bias (4,) does not fit (2, 3)"]),
]


@pytest.mark.parametrize(("node", "wanted"), FAULTY)
def test_every_fault_of_a_node(registry: OpRegistry, node: Node, wanted: list[str]) -> None:
    found = node_faults(node, registry)
    assert [p.message for p in found] == wanted
    assert {p.where for p in found} <= {"Scale node 'n' (from /Mul)"}


def test_unknown_ops_and_packages(registry: OpRegistry) -> None:
    found = node_faults(Node("n", "test.ops", "Skale", [], []), registry)
    assert found == [
        Problem(
            "op 'Skale' not found in op package 'test.ops'",
            "Skale node 'n'",
            "did you mean 'Scale'?",
        )
    ]
    found = node_faults(Node("n", "tests.ops", "Scale", [], []), registry)
    assert found[0].message == "op package 'tests.ops' not found"


def test_what_an_op_says_about_its_inputs_keeps_its_hint(registry: OpRegistry) -> None:
    found = node_faults(scale([X, of("b", F32, (4,))], [Y]), registry)
    assert [p.hint for p in found] == ["give it that shape"]


def custom(infer: Callable[..., object], outputs: int = 1) -> OpRegistry:
    package = OpPackage("p")
    ports = tuple(Out(f"out[{i}]", optional=i > 0) for i in range(outputs))
    body = {"inputs": (In("in[0]"),), "outputs": ports, "infer": infer, "reference": infer}
    package.op("It")(type("It", (Op,), body))
    return OpRegistry.of(package)


def test_all_that_an_op_finds_is_kept() -> None:
    def infer(self: Op, ins: object, outs: object) -> object:
        raise OpError("two things", problems=[Problem("one"), Problem("other")])

    found = node_faults(Node("n", "p", "It", [X], [Y]), custom(infer))
    assert [p.message for p in found] == ["two things", "one", "other"]


def test_an_op_that_gives_too_few_outputs_is_found() -> None:
    def infer(self: Op, ins: list[Spec], outs: object) -> object:
        return ins[0]

    found = node_faults(Node("n", "p", "It", [X], [Y, of("z")]), custom(infer, 2))
    assert [p.message for p in found] == ["has 2 outputs, but p::It returns 1"]


def test_left_out_outputs_at_the_end_are_no_fault(registry: OpRegistry) -> None:
    plain, offset = of("plain", I32), of("offset", I32, ())
    for outs in ([plain], [plain, offset]):
        assert node_faults(Node("n", "test.ops", "Bits", [X], outs), registry) == []
    found = node_faults(Node("n", "test.ops", "Bits", [X], [plain, of("o", F32, ())]), registry)
    assert ["output 'o'" in p.message for p in found] == [True]


def test_a_node_is_bound_with_its_inputs_specs(registry: OpRegistry) -> None:
    node = scale([X, NULL], [Y])
    assert input_specs(node) == [X.spec, None]
    assert bind_node(registry.find("test.ops", "Scale"), node).axis == 1


def graph() -> Graph:
    made = Graph("g")
    x = made.add_tensor(Tensor("x", F32, (2, 3), TensorKind.APP_WRITE))
    m = made.add_tensor(Tensor("m", F32, (2, 3)))
    y = made.add_tensor(Tensor("y", F32, (2, 3), TensorKind.APP_READ))
    made.add_node(Node("a", "test.ops", "Scale", [x], [m], BY))
    made.add_node(Node("b", "test.ops", "Scale", [m], [y], BY))
    return made


def test_all_nodes_faults_come_in_one_error(registry: OpRegistry) -> None:
    made = graph()
    check_ops(made, registry)
    for node in made.nodes:
        node.params = {}
    with pytest.raises(GraphError, match="2 faults found") as caught:
        check_ops(made, registry)
    assert [str(p) for p in caught.value.problems] == [
        "Scale node 'a': missing required param 'by'",
        "Scale node 'b': missing required param 'by'",
    ]


def test_ops_are_not_judged_on_a_broken_structure(registry: OpRegistry) -> None:
    made = graph()
    made.node("a").params = {"by": Tensor("p", U32, ())}
    found = find_op_faults(made, registry)
    assert [p.message for p in found] == ["param 'by' has no data"]
    made.node("a").params = {"by": Tensor.static("p", np.zeros((), np.uint32))}
    assert [p.message for p in find_op_faults(made, registry)] == ["param 'by' must be a scalar"]
