"""Names of ops in the JSON of QNN's converters, and of QNN's op set.

Legacy converters write names of their own representation there, with the op set's name in a param;
`model.cpp` always has the op set's names. Source: docs/qnn_formats.md, "Op types".
"""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.ir import DType, Param, Scalar
from dovetail_opset import PACKAGE

_PACKAGE_NAME = "packageName"
# The param with the op set's name, and the op that a param `operation` selects instead.
_SELECTORS: Mapping[str, tuple[str, str]] = {
    "Eltwise_Unary": ("eltwise_type", "ElementWiseUnary"),
    "Eltwise_Binary": ("eltwise_type", "ElementWiseBinary"),
    "Eltwise_Ternary": ("eltwise_type", "Eltwise_Ternary"),
    "ElementWiseUnary": ("eltwise_type", "ElementWiseUnary"),
    "ElementWiseBinary": ("eltwise_type", "ElementWiseBinary"),
    "Neuron": ("neuron_type", "ElementWiseNeuron"),
    "ElementWiseNeuron": ("neuron_type", "ElementWiseNeuron"),
    "Pool": ("pool_type", "Pool"),
    "Reduce": ("reduce_type", "Reduce"),
}


def in_op_set(package: str, op_type: str, params: dict[str, Param]) -> tuple[str, dict[str, Param]]:
    """Return the op set's name of an op, and the params without those that only select it.

    Ops of other packages keep their names.
    """
    repeated = params.get(_PACKAGE_NAME)
    if isinstance(repeated, Scalar) and repeated.value == package:
        params = {name: param for name, param in params.items() if name != _PACKAGE_NAME}
    if package != PACKAGE.name or op_type not in _SELECTORS:
        return op_type, params
    selector, general = _SELECTORS[op_type]
    chosen = params.get(selector)
    rest = {name: param for name, param in params.items() if name != selector}
    if "operation" in params:
        return general, rest
    if isinstance(chosen, Scalar) and chosen.dtype is DType.STRING:
        return str(chosen.value), rest
    return op_type, params
