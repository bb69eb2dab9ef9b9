"""The numbers of a norm of stored bytes, in steps of its result."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dovetail.ir import Array
from dovetail.ops import NodeView
from dovetail_numpy.integer.norms import scale_of, single
from dovetail_numpy.integer.rescaling import grid_of
from dovetail_numpy.kernels._calls import Floats
from dovetail_numpy.kernels.near_ties import LARGEST, ULP, NearTies
from dovetail_numpy.kernels.norm_factors import NormFactors

_MOST_ERROR = 0.05  # a tenth of the elements would be computed exactly


@dataclass(frozen=True, slots=True)
class NormNumbers:
    """The numbers of a normalization.

    Attributes:
        epsilon: In squares of levels.
        factors: Gamma and beta.
        factor, offset: The same in steps of the result, float32.
        near: The rounding.
    """

    epsilon: float
    factors: NormFactors
    factor: Floats
    offset: Floats
    near: NearTies

    @classmethod
    def of(cls, view: NodeView, factors: NormFactors, width: int, count: int) -> NormNumbers | None:
        """Return the numbers; None if rounding errors would matter too often.

        Args:
            view: The node.
            factors: Its gamma and beta.
            width: Elements of a row, each with its gamma and beta.
            count: Elements with one mean.
        """
        spec, (out,) = view.ins[0], view.outs
        if spec is None:
            raise AssertionError(f"{view.node.where} lacks its data")
        scale, (step, zero, limits) = scale_of(spec), grid_of(out)
        factor, offset = factors.in_steps(step, width)
        # a deviation over the root of the variance is at most the root of their number
        reach = math.sqrt(count) * np.abs(factor).max() + np.abs(offset + zero).max() + LARGEST
        error = 12 * ULP * float(reach)
        if not error < _MOST_ERROR:
            return None
        return cls(
            single(view.op.epsilon) / (scale * scale),
            factors,
            factor.astype(np.float32),
            (offset + zero).astype(np.float32),
            NearTies(step, zero, limits, error),
        )

    def root(self, variance: Array) -> Array:
        """Return the divisors of deviations with these variances."""
        root = np.sqrt(variance + self.epsilon)
        return np.where(root == 0, 1.0, root)
