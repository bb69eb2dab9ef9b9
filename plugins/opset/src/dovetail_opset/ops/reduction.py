"""Reductions."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, Spec
from dovetail.ops import In, Op, bool8, tensor
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import computed, ints, need_axes


class _Reduction(Op):
    inputs = (In("in[0]"),)

    axes = tensor((None,))
    keep_dims = bool8(False)

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        axes = need_axes(self.axes, len(x.shape))
        kept = (1 if i in axes else n for i, n in enumerate(x.shape))
        left = (n for i, n in enumerate(x.shape) if i not in axes)
        return computed(x, tuple(kept if self.keep_dims else left), out)

    def over_axes(self, reduce: Callable[..., Any], x: Array, **options: Any) -> Array:
        """Gives one of NumPy's reductions over `axes`."""
        return np.asarray(reduce(x, axis=ints(self.axes), keepdims=self.keep_dims, **options))


@PACKAGE.op("ReduceMean")
class ReduceMean(_Reduction):
    """The mean over `axes`, which stay as 1 with keep_dims; integers towards zero. Any shape."""

    source = "spec/qnn_ops.md, ReduceMean"

    def reference(self, x: Array) -> Array:
        return self.over_axes(np.mean, x)


@PACKAGE.op("ReduceSum")
class ReduceSum(_Reduction):
    """The sum over `axes`, which stay as 1 with keep_dims. Any shape."""

    source = "spec/qnn_ops.md, ReduceSum"

    def reference(self, x: Array) -> Array:
        return self.over_axes(np.sum, x, dtype=x.dtype)


@PACKAGE.op("ReduceMax")
class ReduceMax(_Reduction):
    """The greatest element over `axes`, which stay as 1 with keep_dims. Any shape with elements."""

    source = "spec/qnn_ops.md, ReduceMax"

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        found: Spec = super().infer(x, out)
        if any(x.shape[a] == 0 for a in ints(self.axes)):
            raise OpError(f"in[0] {x.shape} has no elements along axes {ints(self.axes)}")
        return found

    def reference(self, x: Array) -> Array:
        return self.over_axes(np.max, x)
