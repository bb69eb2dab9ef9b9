"""Types of nodes in a DLC, and the ops of `qti.aisw` that they are.

Most types are the names of ops. Some are families, in which an attribute selects the op: by the
number of an operation, or by the op's name.
Source: files of the vendor's library next to the op names that it was given; its numbers are those
of QNN's op set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dovetail.errors import OpError
from dovetail.ir import DType, Param, Scalar
from dovetail_opset import PACKAGE
from dovetail_opset.ops.activation import NEURONS
from dovetail_opset.ops.binary import BINARIES
from dovetail_opset.ops.unary import UNARIES

OPERATION = "operation"

_NUMBERED: Mapping[str, tuple[str, Mapping[int, str]]] = {
    "Eltwise_Binary": (
        "ElementWiseBinary",
        {int(number): type(op).__name__ for number, op in BINARIES.items()},
    ),
    "Eltwise_Unary": (
        "ElementWiseUnary",
        {int(number): type(op).__name__ for number, op in UNARIES.items()},
    ),
    "Neuron": (
        "ElementWiseNeuron",
        {int(number): op.__name__ for number, op in NEURONS.items()},
    ),
}
_NAMED: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "Eltwise_Ternary": ("eltwise_type", ("ElementWiseSelect",)),
    "Pool": ("pool_type", ("PoolAvg2d", "PoolMax2d")),
    "Pool3d": ("pool_type", ("PoolAvg3d", "PoolMax3d")),
    "Reduce": ("reduce_type", ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")),
    "Arg": ("arg_type", ("Argmax", "Argmin")),
}
_NUMBER_OF = {
    op: (family, number) for family, (_, ops) in _NUMBERED.items() for number, op in ops.items()
}
_FAMILY_OF = {op: (family, key) for family, (key, ops) in _NAMED.items() for op in ops}


@dataclass(frozen=True, slots=True)
class NodeType:
    """The type of a node, with what selects the op in its family.

    Attributes:
        name: The type.
        params: Params in the file.
        extras: Attributes that are no params.
    """

    name: str
    params: Mapping[str, Param]
    extras: Mapping[str, str]


def read_op(found: NodeType, package: str) -> tuple[str, Mapping[str, Param]]:
    """Return the op of a node of a DLC, and its params.

    Raises:
        OpError: The family's attribute is missing.
    """
    if package != PACKAGE.name:
        return found.name, found.params
    if found.name in _NAMED:
        key = _NAMED[found.name][0]
        if not (op := found.extras.get(key)):
            raise OpError(f"a node of type {found.name} needs the attribute '{key}'")
        return op, found.params
    if found.name not in _NUMBERED:
        return found.name, found.params
    whole, single = _NUMBERED[found.name]
    operation = found.params.get(OPERATION)
    if not isinstance(operation, Scalar):
        raise OpError(f"a node of type {found.name} needs the attribute '{OPERATION}'")
    op = single.get(int(operation.value), "")
    rest = {name: param for name, param in found.params.items() if name != OPERATION}
    if op not in PACKAGE.schemas or rest.keys() - PACKAGE.schemas[op].params.keys():
        return whole, found.params
    return op, rest


def write_op(op_type: str, package: str, params: Mapping[str, Param]) -> NodeType:
    """Return the type of a node of a DLC."""
    if package == PACKAGE.name and op_type in _NUMBER_OF:
        family, number = _NUMBER_OF[op_type]
        return NodeType(family, {**params, OPERATION: Scalar(DType.UINT_32, number)}, {})
    if package == PACKAGE.name and op_type in _FAMILY_OF:
        family, key = _FAMILY_OF[op_type]
        return NodeType(family, params, {key: op_type})
    return NodeType(op_type, params, {})
