"""Notes on calibrated tensors whose grid is coarser than one would expect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dovetail.errors import listed
from dovetail_quantizers.annotation.reporting import STEPS
from dovetail_quantizers.grid import MINIMUM_RANGE
from dovetail_quantizers.planning.encoding_decision import EncodingDecision
from dovetail_quantizers.planning.plan import Plan
from dovetail_quantizers.planning.value_range import ValueRange, span

# Names in one note.
_SHOWN = 8


def narrower_than_given(plan: Plan) -> Iterator[str]:
    """Yield a note if calibrated activations have fewer bits than all that the model gives."""
    stated = {each.tensor for each in plan.overrides.changes if each.kind == "encoding"}
    own = [d for g, d in plan.given.items() if any(t.source in stated for t in g.members)]
    bits = min((_bits(d) for d in own), default=0)
    observed = [g for g in plan.needed() if g.sources and g not in plan.given]
    fewer = [g.leader for g in observed if plan.recipe(g).bitwidth < bits]
    if fewer:
        names = listed([f"'{tensor.source}'" for tensor in fewer], _SHOWN)
        yield (
            f"all activations that the model quantizes have {bits} bits or more, but tensors that "
            f"it leaves float get {plan.recipes.activation.bitwidth}: {names}; act_bitwidth={bits} "
            "gives them as many"
        )


def hardly_used(plan: Plan, observed: Mapping[str, ValueRange]) -> Iterator[str]:
    """Yield a note on the tensors whose range is too narrow for the smallest grid.

    Args:
        plan: The plan.
        observed: The observed ranges, by the name of the group's leader.
    """
    narrow = []
    for group in plan.needed():
        if group.leader.name not in observed or group in plan.given or group.bounds:
            continue
        own = span(observed[group.leader.name][:2])
        if 0 < own < MINIMUM_RANGE * STEPS / 2 ** plan.recipe(group).bitwidth:
            narrow.append(f"'{group.leader.source}' ({own:.2g})")
    if narrow:
        yield (
            f"no grid spans less than {MINIMUM_RANGE:g}, so these tensors use less than {STEPS} "
            f"steps of theirs: {listed(narrow, _SHOWN)}; check that weights and samples are those "
            "of a trained model, or give the tensors encodings"
        )


def _bits(given: EncodingDecision) -> int:
    return (given.encoding and given.encoding.bitwidth) or given.dtype.bits
