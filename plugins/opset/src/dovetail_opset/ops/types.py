"""Changes of type.

The references of Quantize, Dequantize and Convert are the identity on real values: they change how
the result is stored, which the output declares.
"""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Spec
from dovetail.ir.storage import saturate
from dovetail.ops import Domain, In, Op, Out, bool8
from dovetail_opset._package import PACKAGE
from dovetail_opset._shapes import need_encoding

FIXED_POINT = tuple(d for d in DType if d.is_fixed_point)


def _target(x: Spec, out: Spec | None) -> Spec:
    if out is None:
        raise OpError("the output must declare the new type")
    return Spec(out.dtype, x.shape, out.encoding)


@PACKAGE.op("Cast")
class Cast(Op):
    """Stored numbers in another type; fixed-point values count as plain integers.

    Returns the shape of x. A float becomes an integer by truncation: out of range it becomes the
    nearest end of the type's range, and NaN becomes 0. An integer out of range of another integer
    type keeps its low bits (it wraps), except in a 4-bit type, where it is clamped. Any number but
    0 is true as a BOOL_8, NaN too.
    """

    inputs = (In("in[0]"),)
    is_elementwise = True
    keeps_whole = True
    domain = Domain.STORED

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        for spec in (x, out):
            if spec is not None and spec.dtype is DType.BFLOAT_16:
                raise OpError("stored BFLOAT_16 values are bit patterns; use Convert")
        return _target(x, out)

    def reference(self, x: Array, out: Spec) -> Array:
        is_whole = out.dtype.is_int or out.dtype.is_fixed_point
        # a 4-bit type is computed in bytes, which hold more
        if is_whole and (x.dtype.kind == "f" or out.dtype.is_packed):
            return saturate(x, out.dtype)
        return x.astype(out.dtype.storage)


@PACKAGE.op("Convert")
class Convert(Op):
    """The same real values in another type or encoding, to the nearest values of that.

    Returns the shape of x. A value out of range becomes the nearest end of the range. NaN becomes
    the zero point of a fixed-point type, and 0 in an integer type.
    """

    inputs = (In("in[0]"),)
    is_elementwise = True

    dynamic_input_data = bool8(False)
    dynamic_output_data = bool8(False)

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        return _target(x, out)

    def reference(self, x: Array) -> Array:
        return x


@PACKAGE.op("Quantize")
class Quantize(Op):
    """Real values as fixed-point ones: clip(round(x / scale) - offset). Returns the shape of x."""

    inputs = (In("in[0]"),)
    is_elementwise = True
    outputs = (Out("out[0]", FIXED_POINT),)

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        found = _target(x, out)
        need_encoding(found, "out[0]")
        return found

    def reference(self, x: Array) -> Array:
        return x


@PACKAGE.op("Dequantize")
class Dequantize(Op):
    """Fixed-point values as real ones: (q + offset) * scale. Returns the shape of x.

    The type is FLOAT_32 unless the output declares another float type.
    """

    inputs = (In("in[0]", FIXED_POINT),)
    is_elementwise = True

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        need_encoding(x, "in[0]")
        if out is not None and not out.dtype.is_float:
            raise OpError(f"out[0] must be a float type, but it is declared {out.dtype.name}")
        return Spec(DType.FLOAT_32 if out is None else out.dtype, x.shape)

    def reference(self, x: Array) -> Array:
        return x
