"""Every reason why a quantized node cannot be computed exactly on integers."""

from __future__ import annotations

from dovetail.ops import NodeView
from dovetail_numpy.integer.faults import Fault, tensor_faults
from dovetail_numpy.integer.products import PRODUCTS, product_faults
from dovetail_numpy.integer.recurrent import LAYERS, layer_faults
from dovetail_opset import STANDARD

_OWN = {
    **dict.fromkeys(PRODUCTS, product_faults),
    **dict.fromkeys(LAYERS, layer_faults),
}


def find_faults(view: NodeView) -> list[Fault]:
    """Return all faults of a node's types, encodings, constants and sums; none if it is sound.

    Constants are read, so that this takes time in proportion to them.
    """
    found = list(tensor_faults(view))
    known = {(fault.rule, fault.field) for fault in found}
    own = _OWN.get(view.op_type) if view.package == STANDARD else None
    if own is not None:
        found += (f for f in own(view) if (f.rule, f.field) not in known)
    return found
