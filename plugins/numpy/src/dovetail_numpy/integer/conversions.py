"""Changes of type, and ops that work on stored values.

Quantize, Dequantize and Convert are those of `dovetail.ir`: real values in float32, and the zero
point outside the rounding. Cast, OneHot, ConstantOfShape and Shape read and write stored values.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from dovetail.ir import Array, DType, Encoding, Spec, dequantize, quantize
from dovetail.ops import NodeView, simulate
from dovetail_numpy.integer.definitions import DEFINITIONS, Run
from dovetail_numpy.integer.grid import is_defined, is_tabular
from dovetail_numpy.integer.tables import TableKey, grid_key, look_up, made_table, params_key

CONVERSIONS = ("Convert", "Quantize", "Dequantize")
STORED = ("Cast", "OneHot", "ConstantOfShape", "Shape")


def _stored(view: NodeView) -> bool:
    return True


@DEFINITIONS.defines(*STORED, supports=_stored)
def on_stored(view: NodeView, ins: Sequence[Array | None]) -> Sequence[Array]:
    """Run an op on stored values by its reference."""
    schema, op = view.definition
    return simulate(schema, op, ins, view.ins, view.outs)


def conversion_table(view: NodeView) -> Array | None:
    """Return the table of a conversion between fixed-point types; see `look_up`.

    None if a type has more than 16 bits or several scales, or is not fixed-point.
    """
    schema, op = view.definition
    (x,), (out,) = view.ins, view.outs
    if x is None or not is_tabular(x) or not is_tabular(out):
        return None

    def convert(stored: Array) -> Array:
        given, wanted = (Spec(s.dtype, stored.shape, s.encoding) for s in (x, out))
        return simulate(schema, op, [stored], [given], [wanted])[0]

    return made_table(TableKey(params_key(view), grid_key(x), grid_key(out), convert))


def _quantized(encoding: Encoding, dtype: DType, ins: Sequence[Array | None]) -> Sequence[Array]:
    # 4 us instead of the 6 of `on_stored` for few elements
    (x,) = ins
    assert x is not None  # the op requires it
    return [quantize(x, encoding, dtype)]


def _dequantized(encoding: Encoding, ins: Sequence[Array | None]) -> Sequence[Array]:
    (x,) = ins
    assert x is not None  # the op requires it
    return [dequantize(x, encoding)]


@DEFINITIONS.prepares(*CONVERSIONS, supports=is_defined)
def conversion(view: NodeView) -> Run:
    """Convert, by a table between fixed-point types, or from and to float32."""
    (x_spec,), (out_spec,) = view.ins, view.outs
    if x_spec is not None and x_spec.dtype is DType.FLOAT_32 and out_spec.encoding is not None:
        return partial(_quantized, out_spec.encoding, out_spec.dtype)
    if x_spec is not None and x_spec.encoding is not None and out_spec.dtype is DType.FLOAT_32:
        return partial(_dequantized, x_spec.encoding)
    table = conversion_table(view)

    def run(ins: Sequence[Array | None]) -> Sequence[Array]:
        (x,) = ins
        if table is None or x is None:
            return on_stored(view, ins)
        return [look_up(table, x)]

    return run
