"""The activations that ONNX Runtime fuses into the operator before them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dovetail.errors import counted
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import Expr
from dovetail_onnx.operators._parts import constant

# The attributes of each activation's numbers, in their order.
_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
    "HardSwish": (),
    "Softplus": (),
    "Softsign": (),
    "Elu": ("alpha",),
    "LeakyRelu": ("alpha",),
    "ThresholdedRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Clip": ("min", "max"),
}


def activated(op: OpContext, x: Expr, name: str, numbers: Sequence[float]) -> Expr:
    """Return an activation of a value; the value itself where there is none.

    Args:
        op: The node that it is fused into.
        x: The input of the activation.
        name: Name of the activation, empty for none.
        numbers: Its attributes.

    Raises:
        FrontendError: It has another number of attributes.
        UnsupportedOpError: It cannot be converted.
    """
    if not name:
        return x
    if name not in _ATTRIBUTES:
        raise op.unsupported(
            f"unsupported activation '{name}'",
            hint=f"fuse only one of {', '.join(_ATTRIBUTES)}, or save the model without fusing",
        )
    names = _ATTRIBUTES[name]
    if len(numbers) != len(names):
        taken = counted(len(names), "parameter")
        raise op.invalid(f"activation '{name}' takes {taken}, got {len(numbers)}")
    if name == "Clip":  # the one whose numbers are inputs
        return x.apply(name, *(constant(op, "bound", bound, x.dtype) for bound in numbers))
    attributes: dict[str, Any] = dict(zip(names, numbers, strict=True))
    return x.apply(name, **attributes)
