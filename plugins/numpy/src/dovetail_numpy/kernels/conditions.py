"""Conditions of kernels on the tensors of a call."""

from __future__ import annotations

from dovetail.ir import DType, ScaleOffset
from dovetail.runtime.plan import KernelCall

# Types that NumPy computes with in their stored form, like the references. float16 is not among
# them: the references compute it in float32.
NUMBERS = frozenset(d for d in DType if d.is_int or d in (DType.FLOAT_32, DType.FLOAT_64))


def is_float32(call: KernelCall) -> bool:
    """Return whether all tensors are FLOAT_32 and none is empty: the reference runs empty ones."""
    tensors = [t for t in (*call.tensors, *call.outputs) if t is not None]
    return all(t.dtype is DType.FLOAT_32 and 0 not in t.shape for t in tensors)


def is_plain(call: KernelCall) -> bool:
    """Return whether all tensors have the same type, one of NUMBERS, and none is empty."""
    dtype = call.outputs[0].dtype
    tensors = [t for t in (*call.tensors, *call.outputs) if t is not None]
    return dtype in NUMBERS and all(t.dtype is dtype and 0 not in t.shape for t in tensors)


def single_op_type(call: KernelCall) -> str:
    """Return the op type; for an op that selects its function by number, that of the function."""
    return type(getattr(call.op, "single", call.op)).__name__


def only_moves(call: KernelCall, *inputs: int) -> bool:
    """Return whether these inputs and the outputs have one type and encoding, and none is empty.

    With several scales a stored element represents another value wherever it is moved to.
    """
    moved = [t for i in inputs if (t := call.tensors[i]) is not None]
    first = call.outputs[0]
    return isinstance(first.encoding, ScaleOffset | None) and all(
        (t.dtype, t.encoding) == (first.dtype, first.encoding) and 0 not in t.shape
        for t in (*moved, *call.outputs)
    )
