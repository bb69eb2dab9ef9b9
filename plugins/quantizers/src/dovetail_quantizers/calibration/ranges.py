"""Ranges that a plan needs: from the calibration cache, or from runs on the samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dovetail.errors import ConfigError, Problem, QuantizationError, counted, listed
from dovetail.ir import Tensor
from dovetail.quantization import Calibration
from dovetail_quantizers.calibration.cache import RangeCache, key_of
from dovetail_quantizers.calibration.observer import Observed, observe
from dovetail_quantizers.planning.plan import Plan
from dovetail_quantizers.planning.recipe import MIN_MAX

# Names in one message.
_SHOWN = 8


def observe_ranges(plan: Plan, calibration: Calibration | None) -> Observed:
    """Return what calibration finds out about the tensors of a plan.

    Args:
        plan: The plan; it gets notes.
        calibration: The samples; they are read only if the plan needs ranges that are not cached.

    Raises:
        ConfigError: There are samples, but the options replace calibration.
        QuantizationError: The plan needs ranges, and there are no samples; or samples do not match.
    """
    options = plan.options
    where = f"graph '{plan.graph.name}'"
    if calibration is not None and options.float_fallback:
        raise ConfigError(
            "float_fallback replaces calibration, but there are samples",
            where=where,
            hint="remove the samples or float_fallback",
        )
    watched = plan.watched()
    if not watched:
        return Observed()
    if calibration is None:
        raise _missing(plan, watched, where)
    cache = _cache(plan, calibration)
    if cache is not None and (kept := cache.get()) is not None:
        plan.notes.append(f"ranges are from {options.calibration_cache}; no sample was run")
        return Observed(*kept)
    observed = observe(
        plan.graph,
        calibration,
        watched,
        plan.estimators(),
        plan.ops,
        backend=options.calibration_backend,
        lenient=options.lenient,
        extremes_only=plan.recipes.activation.estimator == MIN_MAX,
        counting=plan.counting(),
    )
    if cache is not None and observed.is_infinite:
        plan.notes.append(
            "the ranges were not cached: the calibration cache cannot store infinities"
        )
    elif cache is not None:
        cache.put(observed.ranges, observed.samples)
    return observed


def _missing(plan: Plan, watched: Mapping[str, Sequence[Tensor]], where: str) -> QuantizationError:
    """Return the error of ranges that nothing gives; it lists all if other encodings are given."""
    hint = "pass samples of the inputs (calibration=..., --input-list)"
    if not plan.given:
        text = f"missing calibration samples for the ranges of {_named(watched)}"
        return QuantizationError(text, code="CALIBRATION_EMPTY", where=where, hint=hint)
    lacking = {" and ".join(f"'{t.source}'" for t in each): each[0] for each in watched.values()}
    left = {c.tensor: f": {c.text}" for c in plan.overrides.changes if c.kind == "dropped"}
    return QuantizationError(
        f"{counted(len(lacking), 'tensor')} without an encoding, and no calibration samples",
        code="CALIBRATION_EMPTY",
        where=where,
        hint=f"{hint}, complete the encodings, or keep these tensors float (--float-fallback)",
        problems=[
            Problem(f"no encoding is given or follows{left.get(t.source, '')}", f"tensor {name}")
            for name, t in lacking.items()
        ],
    )


def _named(watched: Mapping[str, Sequence[Tensor]]) -> str:
    names = [f"'{tensor.source}'" for tensors in watched.values() for tensor in tensors]
    return listed(names, _SHOWN)


def _cache(plan: Plan, calibration: Calibration) -> RangeCache | None:
    path = plan.options.calibration_cache
    if path is None:
        return None
    how = {group.leader.name: plan.how(group) for group in plan.needed()}
    key = key_of(plan.graph, calibration, plan.watched(), how)
    if key is None:
        plan.notes.append("the calibration cache was not used: the samples can be read only once")
        return None
    return RangeCache(Path(path), key)
