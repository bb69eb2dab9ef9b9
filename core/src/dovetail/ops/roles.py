"""Roles of an op's inputs in quantization.

By default every float input is an activation, or a constant treated as one. An op declares other
roles in a class attribute, `quantization_roles`: a mapping from input index to role.

    class Mixer(Op):
        quantization_roles = {1: Weight(axis=0, granularity=Granularity.ROW), 2: Bias(0, 1)}
"""

from __future__ import annotations

import enum

import msgspec


class Granularity(enum.Enum):
    """The option that gives a weight several scales."""

    TENSOR = "tensor"
    CHANNEL = "channel"
    ROW = "row"


class Weight(msgspec.Struct, frozen=True):
    """A static input that is multiplied with data; an input that is not static is an activation.

    Attributes:
        axis: Axis of the output channels, from the end if negative; None if there is none.
        granularity: The option that gives each channel a scale.
        transposed_by: Name of a param that, if true, moves the axis one before the last.
        summed: The axis that is summed over, which blocks divide; None if there is none.
    """

    axis: int | None = None
    granularity: Granularity = Granularity.TENSOR
    transposed_by: str | None = None
    summed: int | None = None


class Bias(msgspec.Struct, frozen=True):
    """A static input that is added to sums of products.

    Attributes:
        data, weight: Indices of the inputs whose scales are multiplied for the bias's scale at 32
            bits; None if the bias always has a separate range.
    """

    data: int | None = None
    weight: int | None = None


Role = Weight | Bias
