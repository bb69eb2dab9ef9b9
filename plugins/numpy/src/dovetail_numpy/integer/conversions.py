"""Changes of type, and ops that work on stored values.

Quantize, Dequantize and Convert are those of `dovetail.ir`: real values in float32, and the zero
point outside the rounding. Cast, OneHot, ConstantOfShape and Shape read and write stored values.
"""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.ir import Array, Spec
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


@DEFINITIONS.prepares(*CONVERSIONS, supports=is_defined)
def conversion(view: NodeView) -> Run:
    """Convert, by a table between fixed-point types."""
    table = conversion_table(view)

    def run(ins: Sequence[Array | None]) -> Sequence[Array]:
        (x,) = ins
        if table is None or x is None:
            return on_stored(view, ins)
        return [look_up(table, x)]

    return run
