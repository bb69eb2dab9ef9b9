"""What an input of an op is to a quantizer.

By default every float input is an activation, or a constant like one. An op that wants more says so
in a class attribute, `quantization_roles`: a mapping from the number of an input to its role.

    class Mixer(Op):
        quantization_roles = {1: Weight(axis=0, granularity=Granularity.ROW), 2: Bias(0, 1)}
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Granularity(enum.Enum):
    """Which option gives a weight several scales."""

    TENSOR = "tensor"
    CHANNEL = "channel"
    ROW = "row"


@dataclass(frozen=True, slots=True)
class Weight:
    """A static input that is multiplied with data; one that is not static is an activation.

    Attributes:
        axis: That of the output channels, from the end where negative; None where there is none.
        granularity: Which option gives each channel a scale.
        transposed_by: Param that, where it is true, puts the axis before the last one.
        summed: The axis that is summed over, along which blocks lie; None where there is none.
    """

    axis: int | None = None
    granularity: Granularity = Granularity.TENSOR
    transposed_by: str | None = None
    summed: int | None = None


@dataclass(frozen=True, slots=True)
class Bias:
    """A static input that is added to sums of products.

    Attributes:
        data, weight: The inputs whose scales' product is the bias's scale at 32 bits; None where it
            has a range of its own at any width.
    """

    data: int | None = None
    weight: int | None = None


Role = Weight | Bias
