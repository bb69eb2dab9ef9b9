"""Op schemas, op packages and their registry; no operators."""

from dovetail.ops.check import (
    bind_node,
    check_ops,
    checked_node,
    find_op_faults,
    input_specs,
    matched_node,
    node_faults,
    opaque_node,
    require_known,
)
from dovetail.ops.checked import EVERYTHING, NOTHING, CheckedGraph, NodeView, Observed
from dovetail.ops.defined import DefinedOp
from dovetail.ops.op import UNBOUNDED, Arrays, BatchAxis, Domain, In, Op, Out, Port, Range
from dovetail.ops.params import (
    REQUIRED,
    ParamField,
    Specs,
    bool8,
    choice,
    float32,
    int32,
    last_axis,
    scalar,
    tensor,
    uint32,
)
from dovetail.ops.registry import OpPackage, OpRegistry
from dovetail.ops.roles import Bias, Granularity, Role, Weight
from dovetail.ops.schema import OpSchema
from dovetail.ops.shape_text import ShapeText
from dovetail.ops.simulate import from_real, simulate, to_real, unstorable

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "REQUIRED",
    "UNBOUNDED",
    "Arrays",
    "BatchAxis",
    "Bias",
    "CheckedGraph",
    "DefinedOp",
    "Domain",
    "Granularity",
    "In",
    "NodeView",
    "Observed",
    "Op",
    "OpPackage",
    "OpRegistry",
    "OpSchema",
    "Out",
    "ParamField",
    "Port",
    "Range",
    "Role",
    "ShapeText",
    "Specs",
    "Weight",
    "bind_node",
    "bool8",
    "check_ops",
    "checked_node",
    "choice",
    "find_op_faults",
    "float32",
    "from_real",
    "input_specs",
    "int32",
    "last_axis",
    "matched_node",
    "node_faults",
    "opaque_node",
    "require_known",
    "scalar",
    "simulate",
    "tensor",
    "to_real",
    "uint32",
    "unstorable",
]
