"""The report of a graph: the decision on each tensor, and the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from dovetail.ir import Encoding, ScaleOffset, Tensor
from dovetail.quantization import Bias, TensorDecision, Weight
from dovetail_quantizers.planning.encoding_decision import EncodingDecision
from dovetail_quantizers.planning.plan import Plan
from dovetail_quantizers.planning.roles import present, roles_of


def decisions_of(
    plan: Plan, decisions: Mapping[Tensor, EncodingDecision]
) -> tuple[TensorDecision, ...]:
    """Return the decisions on the tensors of a plan's graph."""
    roles = _roles(plan)
    told = [tensor for tensor in plan.graph.tensors.values() if tensor in decisions]
    lines = Counter(tensor.source for tensor in told)
    return tuple(
        _line(
            plan,
            tensor,
            roles.get(tensor, "activation"),
            decisions[tensor],
            name=tensor.name if lines[tensor.source] > 1 else None,
        )
        for tensor in told
    )


def _line(
    plan: Plan, tensor: Tensor, role: str, got: EncodingDecision, *, name: str | None
) -> TensorDecision:
    group = plan.groups.get(tensor)
    leader = None if group is None or got.encoding is None else group.leader
    why, shared = got.why, None
    if group is not None and leader is not None and leader is not tensor:
        shared = leader.source
        clipper = group.squashed.get(tensor)
        why = (
            f"clipped by {clipper.where}"
            if clipper
            else "same values as the tensor that it shares with"
        )
    minimum, maximum = _ends(tensor)
    one = tensor.encoding if isinstance(tensor.encoding, ScaleOffset) else None
    return TensorDecision(
        tensor=tensor.source,
        role=role,
        dtype=tensor.dtype.name,
        why=why,
        bitwidth=_bitwidth(tensor),
        scales=None if tensor.encoding is None else _scales(tensor.encoding),
        scale=None if one is None else one.scale,
        offset=None if one is None else one.offset,
        minimum=minimum,
        maximum=maximum,
        observed=got.observed if shared is None else None,
        shared_with=shared,
        name=name,
    )


def _roles(plan: Plan) -> dict[Tensor, str]:
    found: dict[Tensor, str] = {}
    for node in plan.graph.nodes:
        roles = roles_of(node, plan.ops)
        for i, tensor in present(node):
            if tensor.kind.is_static:
                role = roles.get(i)
                name = "weight" if isinstance(role, Weight) else "constant"
                found[tensor] = "bias" if isinstance(role, Bias) else name
    return found


def _bitwidth(tensor: Tensor) -> int | None:
    if tensor.encoding is None:
        return None
    return getattr(tensor.encoding, "bitwidth", None) or tensor.dtype.bits


def _scales(encoding: Encoding) -> int:
    return 1 if isinstance(encoding, ScaleOffset) else int(np.size(getattr(encoding, "scales", 0)))


def _ends(tensor: Tensor) -> tuple[float | None, float | None]:
    """Return the minimum and maximum of a tensor's encoding."""
    if tensor.encoding is None or not all(tensor.shape):
        return None, None
    scale, offset = tensor.encoding.scales_and_offsets(tensor.shape)
    low, high = tensor.dtype.stored_range(_bitwidth(tensor))
    wide = offset.astype(np.float64)
    return float(((wide + low) * scale).min()), float(((wide + high) * scale).max())
