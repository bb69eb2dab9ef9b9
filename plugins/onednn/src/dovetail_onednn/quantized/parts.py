"""Copies of input channels, for weights that are sums of several terms; see `Integers.parts`."""

from __future__ import annotations

import math

from dovetail_onednn._api import DataType
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument
from dovetail_onednn.layouts import dense
from dovetail_onednn.quantized.stages import Stages

MOST_PARTS = 4  # terms of an unsigned byte where the library multiplies 7 bits
SIGN = 128  # from a signed byte to an unsigned one


def copy_channels(
    stages: Stages, data: Argument, room: Argument, counts: tuple[int, int], is_shifted: bool
) -> None:
    """Add copies of the channels of each group, one after the other.

    Args:
        stages: The step.
        data: The value of the data.
        room: Where they are copied to.
        counts: Numbers of groups and of copies.
        is_shifted: Whether signed bytes become unsigned.
    """
    (groups, parts), width = counts, room.desc.dims[1]
    shape = (math.prod(room.desc.dims) // width, groups, width // groups // parts)
    stored = dense(shape).of_type(DataType.S8 if is_shifted else room.desc.type)
    target = MemoryDesc.strided(shape, (width, width // groups, 1), room.desc.type)
    for part in range(parts):
        copy = Argument(target, room.value, part * shape[2])
        stages.move(Argument(stored, data.value), copy, -SIGN if is_shifted else 0)
