"""Options of the backend `auto`."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from dovetail.runtime.contract import FloatPrecision
from dovetail.runtime.placement.options import HeteroOptions

Power = Literal["performance", "balanced", "saving"]
Wanted = Literal["float32", "float16", "any"]

# How many times slower than the fastest the most power-efficient candidate may be.
TOLERANCES: dict[Power, float] = {"performance": 1.0, "balanced": 1.25, "saving": 4.0}
_ACCEPTED: dict[Wanted, tuple[FloatPrecision, ...]] = {
    "float32": (FloatPrecision.FLOAT32,),
    "float16": (FloatPrecision.FLOAT32, FloatPrecision.FLOAT16),
    "any": tuple(FloatPrecision),
}


class AutoOptions(HeteroOptions, frozen=True):
    """Options of the backend `auto`: its candidates, rules and measurement.

    All but `members` are the keys of `[auto]` in a config file.

    Attributes:
        order: The candidates, in the order of preference; by default all installed backends that
            compute on this machine's own hardware (`is_native`), the most power-efficient first.
        min_fraction: Minimum fraction that the first backend must run of a graph in parts, of the
            nodes and of the multiply-accumulates; otherwise it is not tried.
        forbid: Candidates that must not run any node.
        pin: Backend of a node, as for `hetero`.
        members: Options of the candidates.
        precision: Type to which float32 values may be rounded at most: `float32`, `float16` (or
            bfloat16), or `any`, which includes integers.
        power: Which of the remaining candidates is chosen. `performance`: the fastest. `balanced`
            and `saving`: the most power-efficient of those that take at most 1.25 and 4 times as
            long as the fastest.
        measure: Whether the candidates are measured; otherwise the rules alone decide.
        trial_seconds: Seconds for which each candidate is measured.
        cache: Whether decisions are read from and written to the user's cache folder.
    """

    min_fraction: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5
    precision: Wanted = "float32"
    power: Power = "performance"
    measure: bool = True
    trial_seconds: Annotated[float, msgspec.Meta(gt=0, le=60)] = 0.3
    cache: bool = True

    @property
    def accepted(self) -> tuple[FloatPrecision, ...]:
        """The precisions that candidates may have."""
        return _ACCEPTED[self.precision]
