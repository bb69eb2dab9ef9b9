"""Attributes of primitives: post-ops, quantization, the scratchpad and the precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from dovetail_onednn._api import (
    MULTIPLE_SOURCE,
    POST_OP_BASE,
    SCALES,
    USER_SCRATCHPAD,
    ZERO_POINTS,
    Algorithm,
    Arg,
    BinaryAlgorithm,
    DataType,
)
from dovetail_onednn._library import library
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.errors import check
from dovetail_onednn.handles import Handle, make

_OUTPUTS = (
    *(Arg.DESTINATION, Arg.DESTINATION_ITER, Arg.DESTINATION_ITER_C),
    *(Arg.MEAN, Arg.VARIANCE),
    Arg.SCRATCHPAD,
)
_INPUTS = frozenset(Arg) - frozenset(_OUTPUTS)


class Eltwise(msgspec.Struct, frozen=True):
    """Post-op: a function of each element of the result."""

    algorithm: Algorithm
    alpha: float = 0.0
    beta: float = 0.0

    def __str__(self) -> str:
        if self == RELU:
            return "relu"
        return f"{self.algorithm.name.lower()}({self.alpha:g}, {self.beta:g})"


# The library's relu and clip replace NaN by a bound. Its hard swish, x * clip(alpha * x, 0, 1),
# keeps NaN, and is relu for this alpha: exact except for -inf, which becomes NaN, and for numbers
# below 3e-39. In place of relu it takes up to 12 percent of a convolution's time, and 17 of a
# depthwise one's; slopes of 0, which only convolutions and products support, take 0 to 5, and elu
# with alpha 0, which is exact for -inf too, 1 to 100.
RELU = Eltwise(Algorithm.HARDSWISH, 3.4028234663852886e38)


class Binary(msgspec.Struct, frozen=True):
    """Post-op: an elementwise function of the result and another tensor.

    The library can also add to the previous content of the destination. Its depthwise and small
    convolutions then fall back to slow code on some processors if another post-op comes first. It
    was no faster, and needs both tensors to share their bytes.

    Attributes:
        algorithm: The function.
        other: The second operand; axes of size 1 broadcast.
    """

    algorithm: BinaryAlgorithm
    other: MemoryDesc

    def __str__(self) -> str:
        return self.algorithm.name.lower()


class Slopes(msgspec.Struct, frozen=True):
    """Post-op: the result where it is positive, else the result times a slope.

    Attributes:
        other: The slopes, one for each channel or for all.
        is_zero: Whether they are the number 0 rather than an input of the call.
    """

    other: MemoryDesc
    is_zero: bool = False

    @property
    def mask(self) -> int:
        """Bit mask of the axes along which slopes differ."""
        return sum(1 << axis for axis, size in enumerate(self.other.dims) if size > 1)

    def __str__(self) -> str:
        return "relu" if self.is_zero else "prelu"


class Sum(msgspec.Struct, frozen=True):
    """Post-op: the result plus the previous content of the destination times a scale.

    Not for transposed convolutions: where oneDNN 3.2 computes their sums in parts, since the
    filters exceed a cache, it adds to the wrong content.

    Attributes:
        scale: The scale.
        type: Type of the previous content, as wide as that of the destination.
    """

    scale: float
    type: DataType

    def __str__(self) -> str:
        return f"sum({self.scale:g})"


PostOp = Eltwise | Binary | Slopes | Sum


class Quantization(msgspec.Struct, frozen=True):
    """Numbers of a computation on integers, which a primitive reads when it is executed.

    Exact sums of products times the scales, plus the bias, through the post-ops, plus the zero
    point of the destination, are rounded half to even. Each is a float32 operation of its own.

    Attributes:
        scales: Arguments that have scales, with the bit mask of the axes along which these differ.
        zero_points: Arguments that have one zero point, which is subtracted from a source and added
            to the destination.
    """

    scales: tuple[tuple[int, int], ...] = ()
    zero_points: tuple[int, ...] = ()

    @property
    def arguments(self) -> frozenset[int]:
        """The arguments that these numbers are."""
        scales = (SCALES | arg for arg, _ in self.scales)
        return frozenset((*scales, *(ZERO_POINTS | arg for arg in self.zero_points)))

    def mask(self, arg: int) -> int | None:
        """Return the mask of one of `arguments`; None for other arguments."""
        if arg & ZERO_POINTS:
            return 0 if arg ^ ZERO_POINTS in self.zero_points else None
        return dict(self.scales).get(arg ^ SCALES) if arg & SCALES else None


REAL = Quantization()


class Attributes(Handle):
    """The attributes of a primitive: a scratchpad of the caller, post-ops and quantization.

    Args:
        post_ops: Functions of the result.
        math_mode: The library's number for the precision to which it may round factors.
        quantization: Arguments with scales and zero points.
    """

    __slots__ = ()

    def __init__(
        self,
        post_ops: Sequence[PostOp] = (),
        math_mode: int = 0,
        quantization: Quantization = REAL,
    ) -> None:
        doing = f"creating attributes with the post-ops [{', '.join(map(str, post_ops))}]"
        super().__init__("primitive_attr", make("primitive_attr_create", doing=doing))
        functions = library().functions
        set_mode = functions["primitive_attr_set_scratchpad_mode"]
        check(set_mode(self, USER_SCRATCHPAD), doing)
        if math_mode:
            check(functions["primitive_attr_set_fpmath_mode"](self, math_mode), doing)
        for arg, mask in quantization.scales:
            check(functions["primitive_attr_set_scales_mask"](self, arg, mask), doing)
        for arg in quantization.zero_points:
            check(functions["primitive_attr_set_zero_points_mask"](self, arg, 0), doing)
        if not post_ops:
            return
        with Handle("post_ops", make("post_ops_create", doing=doing)) as chain:
            for op in post_ops:
                check(_append(functions, chain, op), doing)
            set_chain = functions["primitive_attr_set_post_ops"]
            check(set_chain(self, chain), doing)


def _append(functions: dict[str, Any], chain: Handle, op: PostOp) -> int:
    if isinstance(op, Binary):
        status = functions["post_ops_append_binary"](chain, op.algorithm, op.other.address)
    elif isinstance(op, Sum):
        status = functions["post_ops_append_sum"](chain, op.scale, 0, op.type)
    elif isinstance(op, Slopes):
        status = functions["post_ops_append_prelu"](chain, op.mask)
    else:
        append = functions["post_ops_append_eltwise"]
        status = append(chain, op.algorithm, op.alpha, op.beta)
    return int(status)


def operand(position: int, op: Binary | Slopes) -> int:
    """Return the number of the argument that the post-op at this index reads."""
    which = Arg.OTHER if isinstance(op, Binary) else Arg.WEIGHTS
    return POST_OP_BASE * (position + 1) | which


def is_operand(arg: int) -> bool:
    """Return whether an argument is the operand of a post-op."""
    return arg >= POST_OP_BASE


def is_input(arg: int) -> bool:
    """Return whether inference reads an argument; it writes all others."""
    return arg in _INPUTS or arg >= MULTIPLE_SOURCE


def post_op_of(arg: int) -> int:
    """Return the index of the post-op that reads an argument."""
    return arg // POST_OP_BASE - 1
