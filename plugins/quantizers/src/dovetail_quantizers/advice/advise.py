"""The options that would reduce the noise of the outputs most."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from dovetail.quantization import Advice
from dovetail_quantizers.advice.noise import (
    BIAS,
    CHANNEL,
    RANGE,
    ROW,
    SCALES,
    WEIGHTS_8,
    WEIGHTS_16,
    WIDTH,
    Noise,
)

# Outputs that are estimated to be this good need no advice.
GOOD_DB = 25.0
# The same for biases of 32 bits, which take little memory and no time.
_GOOD_BIAS_DB = 40.0
# By how much the estimate is lower than measured ratios of trained networks.
_PESSIMISM_DB = 5.0
# A setting is named if it gains this much, about the error of the estimate; no more than MOST are.
LEAST_DB = 2.5
MOST = 3
_SHOWN = 3
Value = bool | int | str | tuple[str, ...]
_SETTINGS: dict[str, tuple[str, Value, str]] = {
    BIAS: ("bias_bitwidth", 32, "the steps of {n} 8-bit biases are coarse for their sums"),
    CHANNEL: (
        "use_per_channel_quantization",
        True,
        "the channels of {n} weights differ in range, and each weight has one scale",
    ),
    ROW: (
        "use_per_row_quantization",
        True,
        "the rows of {n} weights differ in range, and each weight has one scale",
    ),
    RANGE: (
        "act_quantizer_calibration",
        "mse",
        "rare values widen the ranges of {n} activations",
    ),
    WIDTH: ("act_bitwidth", 16, "8 bits are coarse for {n} activations"),
    WEIGHTS_8: ("weights_bitwidth", 8, "less than 8 bits are coarse for {n} weights"),
    WEIGHTS_16: (
        "weights_bitwidth",
        16,
        "8 bits are coarse for {n} weights between 16-bit activations",
    ),
    SCALES: (
        "algorithms",
        ("cle",),
        "the channels of {n} tensors differ in range, and each tensor has one scale",
    ),
}
# Remedies that leave less for others to remove, and those that leave nothing for others.
_LESSENED = {
    RANGE: (WIDTH,),
    CHANNEL: (WEIGHTS_8, WEIGHTS_16),
    ROW: (WEIGHTS_8, WEIGHTS_16),
    SCALES: (WEIGHTS_8, WEIGHTS_16),
}
_REPLACED = {
    WIDTH: (RANGE,),
    WEIGHTS_8: (CHANNEL, ROW),
    WEIGHTS_16: (CHANNEL, ROW),
    SCALES: (CHANNEL, ROW),  # even channels need no scales of their own
}


def advice_on(noise: Noise, measured_db: float | None = None) -> list[Advice]:
    """Return up to three settings, the one with the largest gain first.

    Each gain is in addition to the settings before it. What costs nothing at run time is preferred
    where it is enough or gains at least half as many dB: a range estimator to wider activations,
    scales for channels or rows to wider weights.

    Args:
        noise: The estimate.
        measured_db: The signal-to-noise ratio of the outputs, if it was measured.
    """
    found: list[Advice] = []
    left = noise.total
    present = GOOD_DB if left <= 0 else -10 * math.log10(left)
    if measured_db is not None:
        present = measured_db - _PESSIMISM_DB
    remedies = {name: sum(parts.values()) for name, parts in noise.savings.items()}
    while len(found) < MOST and left > 0:
        gains = {
            name: _gain(left, saved)
            for name, saved in remedies.items()
            if present < (_GOOD_BIAS_DB if name == BIAS else GOOD_DB)
        }
        best = max(gains, key=lambda name: gains[name], default=None)
        if best is None or gains[best] < LEAST_DB:
            break
        cheaper = [name for name in gains if best in _LESSENED.get(name, ())]
        for name in sorted(cheaper, key=lambda name: gains[name]):
            is_enough = present + gains[name] >= GOOD_DB
            if gains[name] >= LEAST_DB and (is_enough or gains[name] >= gains[best] / 2):
                best = name
        found.append(_advice(best, gains[best], noise))
        saved = remedies.pop(best)
        left -= saved
        present += gains[best]
        for name in _LESSENED.get(best, ()):
            remedies[name] = max(remedies.get(name, 0.0) - saved, 0.0)
        for name in _REPLACED.get(best, ()):
            remedies.pop(name, None)
    return found


def joined(each: Iterable[Sequence[Advice]]) -> tuple[Advice, ...]:
    """Return the advice on a model from that on its graphs: of equal settings the largest gain."""
    best: dict[str, Advice] = {}
    for advice in (one for many in each for one in many):
        before = best.get(advice.option)
        if before is None or advice.estimated_gain_db > before.estimated_gain_db:
            best[advice.option] = advice
    return tuple(sorted(best.values(), key=lambda advice: -advice.estimated_gain_db)[:MOST])


def _gain(noise: float, saved: float) -> float:
    return -10 * math.log10(max(1 - saved / noise, 1e-6))


def _advice(remedy: str, gain: float, noise: Noise) -> Advice:
    option, value, reason = _SETTINGS[remedy]
    parts = noise.savings[remedy]
    worst = sorted(parts, key=lambda name: -parts[name])[:_SHOWN]
    listed = ", ".join(f"'{name}'" for name in worst)
    return Advice(
        option=option,
        value=value,
        estimated_gain_db=round(gain, 1),
        why=f"{reason.format(n=noise.counts[remedy])}, most of all {listed}",
    )
