"""Norms of rows of stored bytes: conditions, factors, and their rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from dovetail.ir import Array
from dovetail.runtime.plan import KernelCall
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_numpy.kernels.near_ties import ULP, NearTies
from dovetail_numpy.kernels.norm_factors import NormFactors
from dovetail_numpy.kernels.row_roots import has_last_axes
from dovetail_onednn._api import Arg, NormalizationFlag
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument
from dovetail_onednn.layouts import dense, vector
from dovetail_onednn.primitives import ENGINE, Description
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.quantized.types import EXACT, TYPES, is_narrow

_BYTE = 1 << 8
_MOST_ERROR = 2.0**-6
_LARGEST = 1e30  # far from overflow


def has_rows(call: KernelCall, axes: Sequence[int]) -> bool:
    """Return whether rows of bytes along these axes are normalized."""
    spec, out = call.spec(0), call.outputs[0].spec
    is_known = DEFINITIONS.of(call.head) is not None and is_narrow(spec) and is_narrow(out)
    if not is_known or {spec.dtype, out.dtype} - TYPES.keys() or 0 in spec.shape:
        return False
    width = math.prod(spec.shape[axis] for axis in axes)
    return (
        has_last_axes(call, axes)
        and width * _BYTE <= EXACT  # sums of squares are below 2**31 then, too
        and grid_of(out)[2] == out.dtype.stored_range()
    )


class RowNorm(msgspec.Struct, frozen=True):
    """The numbers of a norm of rows.

    Attributes:
        count, width: Number of rows, and their length.
        factors: Gamma and beta.
        factor, offset: The same in steps of the result.
        near: The rounding.
    """

    count: int
    width: int
    factors: NormFactors
    factor: Array
    offset: Array
    near: NearTies

    @classmethod
    def of(cls, call: KernelCall, width: int, roundings: float) -> RowNorm | None:
        """Return the numbers; None if errors would matter too often, or factors are not constant.

        Args:
            call: `has_rows` of it.
            width: Length of the rows.
            roundings: Error of a product with gamma, relative to it, in `ULP`.
        """
        factors = NormFactors.of(call)
        if factors is None:
            return None
        step, zero, limits = grid_of(call.outputs[0].spec)
        factor, offset = factors.in_steps(step, width)
        relative = (roundings + 1) * ULP
        near = NearTies(step, zero, limits, relative * float(np.abs(offset).max()), relative)
        farthest = max(abs(limit - zero) for limit in limits)
        is_normal = float(np.abs(factor).max()) < _LARGEST
        if not is_normal or not near.error + near.relative * farthest < _MOST_ERROR:
            return None
        count = math.prod(call.spec(0).shape) // width
        return cls(count, width, factors, factor, offset, near)

    @property
    def desc(self) -> MemoryDesc:
        """The rows, float32."""
        return dense((self.count, self.width))

    def described(self, call: KernelCall, kind: int, epsilon: float, flags: int = 0) -> Description:
        """Describe the primitive that normalizes the stored rows of a call.

        Args:
            call: The call.
            kind: Kind of propagation.
            epsilon: In squares of levels.
            flags: In addition to those of the factors.
        """
        rows, stored = self.desc, self.desc.of_type(TYPES[call.spec(0).dtype])
        flags |= NormalizationFlag.SCALE | NormalizationFlag.SHIFT
        return Description(
            "layer_normalization_forward",
            (ENGINE, kind, stored, rows, None, epsilon, flags),
            lambda: f"a layer normalization of the stored rows of {rows.key}",
        )

    def arguments(self, stages: Stages) -> dict[int, Argument]:
        """Return the arguments of the factors."""
        per_column = vector(self.width)
        return {
            Arg.SCALE: stages.numbers(self.factor.astype(np.float32), per_column),
            Arg.SHIFT: stages.numbers(self.offset.astype(np.float32), per_column),
        }
