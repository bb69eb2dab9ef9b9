"""Normalizations, with the sums and embeddings before them."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail_onnx._context import OpContext
from dovetail_onnx._registry import Importer
from dovetail_onnx.operators._formula import Expr, operand
from dovetail_onnx.operators._parts import value
from dovetail_onnx.operators._table import ONNX
from dovetail_onnx.operators.activation import broadcasts
from dovetail_onnx.operators.microsoft._table import MICROSOFT
from dovetail_onnx.operators.normalization import layer_normalization, rms_normalization
from dovetail_opset.importing.constant import Result, Value

# ONNX Runtime has the first since before ONNX, with the same meaning; the second is its own. Both
# are in ONNX's domain.
OF_ONNX_DOMAIN = {"LayerNormalization": 1, "SimplifiedLayerNormalization": 1}

ONNX.importer("LayerNormalization", versions=(1,))(layer_normalization)


@ONNX.importer("SimplifiedLayerNormalization", versions=(1,))
def simplified_layer_normalization(op: OpContext) -> Result | Sequence[Result | None]:
    """RmsNorm."""
    if op.is_output_used(1):
        raise op.unsupported(
            "unsupported second output, 1 over the root mean square",
            hint="leave it out",
        )
    return rms_normalization(op)


def _with_skip(op_type: str, *, factors: tuple[int, ...], bias: int) -> Importer:
    """Return the importer of a normalization of a sum.

    Args:
        op_type: The normalization, of ONNX's own.
        factors: The numbers of its other inputs.
        bias: The number of the input that is added to the two others.
    """

    def convert(op: OpContext) -> Sequence[Value | None]:
        if op.is_output_used(1) or op.is_output_used(2):
            raise op.unsupported(
                "unsupported outputs mean and inv_std_var, which are for training",
                hint="leave them out",
            )
        total = _sum(op, bias)
        inputs = (value(op, i) for i in factors)
        epsilon = op.attr.number("epsilon", 1e-12)
        y = Expr(op, total).apply(op_type, *inputs, axis=-1, epsilon=epsilon)
        return [y.emit(), None, None, total]

    return convert


def _sum(op: OpContext, bias: int) -> Value:
    """Emit the sum of two inputs and a bias, which is also the fourth output if that is used."""
    x, skip = op.spec(0).shape, op.spec(1).shape
    if not broadcasts(skip, x):
        raise op.invalid(f"skip {skip} does not match the input {x}")
    total = operand(op, 0) + operand(op, 1)
    if op.has(bias):
        total += operand(op, bias)
    return total.emit(3 if op.is_output_used(3) else None)


MICROSOFT.importer("SkipLayerNormalization", versions=(1,))(
    _with_skip("LayerNormalization", factors=(2, 3), bias=4)
)
MICROSOFT.importer("SkipSimplifiedLayerNormalization", versions=(1,))(
    _with_skip("RMSNormalization", factors=(2,), bias=3)
)
