"""Verdicts on types that no row of a table has: what is wrong, what is allowed, what to change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from dovetail.ir import DType
from dovetail.ops import Bias, NodeView, Weight
from dovetail.runtime.contract import Support
from dovetail_opset.type_tables import Converts, Row, Types, converts_nothing, takes


def foreign_types(
    view: NodeView, rows: Sequence[Row], converts: Converts = converts_nothing
) -> Support:
    """Return the verdict on types that no row has, by the nearest row.

    Args:
        view: The node.
        rows: The rows of its op.
        converts: Returns whether a tensor of another type can be used for a port.
    """
    field, found, _ = _nearest(view, rows, converts).mismatches(view, converts)[0]
    faults = [row.mismatches(view, converts) for row in rows]
    alone = [one for one in faults if len(one) == 1 and one[0][0] == field]
    allowed = _joined(types for one in alone or faults for at, _, types in one if at == field)
    return Support(
        False,
        "dtype",
        field,
        found.name,
        tuple(t.name for t in allowed) or ("omitted",),
        f"change {changes(view, rows, converts)}: {_remedy(view, rows, converts)}",
    )


def _nearest(view: NodeView, rows: Sequence[Row], converts: Converts) -> Row:
    """Return the row that the fewest tensors miss, and by the smallest distance."""

    def distance(row: Row) -> tuple[int, int]:
        faults = row.mismatches(view, converts)
        steps = (min(_distance(found, t) for t in types) for _, found, types in faults if types)
        return len(faults), sum(steps)

    return min(rows, key=distance)


def changes(view: NodeView, rows: Sequence[Row], converts: Converts = converts_nothing) -> str:
    """Return the changes of types that lead to the nearest row, in words; see `foreign_types`."""
    row = _nearest(view, rows, converts)
    found = []
    for ports, specs in ((row.ins, view.ins), (row.outs, view.outs)):
        for i, spec in enumerate(specs):
            if spec is None or takes(spec, types := ports.at(i) or (), converts):
                continue
            nearest = min(types, key=partial(_distance, spec.dtype))
            option = _option(view, i, nearest) if ports is row.ins else ""
            found.append(f"{ports.what}[{i}] to {nearest.name}{option and f' ({option})'}")
    return ", ".join(found) or "the number of tensors"


def _remedy(view: NodeView, rows: Sequence[Row], converts: Converts) -> str:
    """Return how tensors get the types of the nearest row, in words."""
    fields = {field for field, _, _ in _nearest(view, rows, converts).mismatches(view, converts)}
    constants = {f"in[{i}].dtype" for i in range(len(view.ins)) if _is_constant(view, i)}
    if fields <= constants:
        return "use these options of the quantizer, or quantize otherwise"
    return "insert a Convert or Cast, or quantize otherwise"


def _option(view: NodeView, port: int, wanted: DType) -> str:
    """Return the quantizer's option that stores a constant in a type; empty if there is none."""
    if not _is_constant(view, port) or not wanted.is_fixed_point:
        return ""
    found, role = view.spec(port).dtype, view.definition[0].op.quantization_roles.get(port)
    of_type = "act" if role is None else "param"
    if found.bits < wanted.bits == 8:
        return "pack_4_bit_weights=False"
    if found.bits != wanted.bits or found.is_float:
        kinds: dict[type, str] = {Weight: "weights", Bias: "bias"}
        kind = kinds.get(type(role), "act")
        return f"{kind}_bitwidth={wanted.bits}"
    schema = "symmetric" if wanted.is_signed else "asymmetric"
    return f"{of_type}_quantizer_schema={schema}"


def _is_constant(view: NodeView, port: int) -> bool:
    tensor = view.node.inputs[port]
    return tensor is not None and tensor.kind.is_static


def _distance(one: DType, other: DType) -> int:
    """Return how far a conversion is: between families farthest, then by width and sign."""
    kinds = [(d.is_fixed_point, d.is_float, d.is_int) for d in (one, other)]
    sign = one.is_signed != other.is_signed
    return 100 * (kinds[0] != kinds[1]) + abs(one.bits - other.bits) + sign


def _joined(allowed: Iterable[Types]) -> Types:
    return tuple(dict.fromkeys(t for types in allowed for t in types))
