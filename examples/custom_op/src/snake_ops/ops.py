"""The op: its schema, its shape rule and its reference in NumPy."""

from __future__ import annotations

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, Spec
from dovetail.ops import In, Op, OpPackage, Out

PACKAGE = OpPackage("audio.snake", "1.0.0")


@PACKAGE.op("Snake")
class Snake(Op):
    """x + sin(alpha * x) ** 2 / alpha, elementwise; x where alpha is 0, the limit.

    x: any shape, float or fixed-point; alpha: float, of a shape that broadcasts to that of x, for
    example one number for each channel. Returns the shape of x. The graph declares the fixed-point
    type and the encoding of the output.

    Source: L. Ziyin et al. 2020, Neural networks fail to learn periodic functions and how to fix it
    """

    inputs = (In("x"), In("alpha"))
    outputs = (Out("y"),)
    source = "L. Ziyin et al. 2020, equation 3"

    def infer(self, x: Spec, alpha: Spec, y: Spec | None) -> Spec:
        """Return the type and shape of `y`."""
        try:
            fits = np.broadcast_shapes(x.shape, alpha.shape) == x.shape
        except ValueError:
            fits = False
        if not fits:
            raise OpError(f"alpha {alpha.shape} does not broadcast to x {x.shape}")
        if not alpha.dtype.is_float:
            raise OpError(f"alpha must be of a float type, got {alpha.dtype.name}")
        if y is None:
            return Spec(x.dtype, x.shape)
        both_fixed = x.dtype.is_fixed_point and y.dtype.is_fixed_point
        return Spec(y.dtype if both_fixed else x.dtype, x.shape, y.encoding)

    def reference(self, x: Array, alpha: Array) -> Array:
        """Return `y` for real values; those of a quantized tensor are dequantized."""
        waves = np.sin(alpha * x) ** 2
        added: Array = np.divide(waves, alpha, out=np.zeros_like(waves), where=alpha != 0)
        return x + added
