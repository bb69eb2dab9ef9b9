"""Products of rows by matrices as primitives, and matrices that nodes compute as their operands."""

from __future__ import annotations

import math

import numpy as np

from dovetail.ir import Array, Spec
from dovetail.runtime.plan import KernelCall, Value
from dovetail_onednn._api import FORWARD_INFERENCE, Arg, DataType
from dovetail_onednn._library import library
from dovetail_onednn.attributes import PostOp, Quantization
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument
from dovetail_onednn.layouts import OneDnnLayout, Strided
from dovetail_onednn.primitives import ENGINE, Description, PrimitiveDesc
from dovetail_onednn.quantized.products import WEIGHTS
from dovetail_onednn.quantized.stages import Stages
from dovetail_onednn.quantized.types import TYPES
from dovetail_onednn.reorder import Arrays, given, pack
from dovetail_onednn.threads import threads_for

BY_COLUMN, BY_ROW = 0b10, 0b01  # masks of the axes of (depth, units) and of (units, depth)
MATMUL, INNER_PRODUCT = "matmul", "inner_product_forward"
_UNSIGNED = 128  # half the range of a byte


def matrix_desc(
    operands: tuple[MemoryDesc | None, ...],
    ops: tuple[PostOp, ...],
    quantization: Quantization,
    primitive: str = MATMUL,
) -> PrimitiveDesc:
    """Describe a product of rows, a matrix and perhaps a bias, by a kind of primitive.

    Raises:
        BackendError: The library has no such primitive.
    """
    source, weights, _, target = operands
    if source is None or weights is None or target is None:
        raise AssertionError("a product without an operand")
    count = math.prod(target.dims) * source.dims[-1]
    fused = "".join(f" + {op}" for op in ops)
    kind = () if primitive == MATMUL else (FORWARD_INFERENCE,)
    description = Description(
        primitive,
        (ENGINE, *kind, *operands),
        lambda: f"a product of integers{fused}: {source.key} by {weights.dims}",
        ops,
        quantization=quantization,
    )
    with threads_for(count):
        return PrimitiveDesc(description)


def needs_data_zero() -> bool:
    """Return whether data need a zero point, even if that is 0, where matrices have one.

    Without it, the code of oneDNN 3.2 for AVX2 with VNNI overwrites the last of 14 rows of sums.
    """
    return library().has_vnni and not library().has_avx512


def read_matrices(call: KernelCall, index: int) -> Value:
    """Declare that an input that is a stack of matrices is read, dense or a transpose of that."""
    layout = call.layout(index)
    return call.read(index, layout if isinstance(layout, Strided) else None)


def stored_matrices(call: KernelCall, matrix: MemoryDesc) -> Argument:
    """Declare that the bytes of the second input are read.

    Args:
        call: The call of the kernel.
        matrix: Descriptor of the matrices as `read_matrices` reads them.
    """
    return Argument(matrix.of_type(TYPES[call.spec(WEIGHTS).dtype]), read_matrices(call, WEIGHTS))


def signed_shift(spec: Spec) -> int:
    """Return what is subtracted from stored bytes, so that they are signed ones."""
    return _UNSIGNED if TYPES[spec.dtype] is DataType.U8 else 0


def signed_matrices(
    stages: Stages, call: KernelCall, desc: PrimitiveDesc, matrix: MemoryDesc, data: str
) -> Argument:
    """Declare that a primitive reads the second input as signed bytes; constants are packed.

    Args:
        stages: The primitives before it.
        call: The call of the kernel.
        desc: The primitive.
        matrix: Descriptor of the matrices as `read_matrices` reads them, signed bytes.
        data: What the layout depends on besides, such as the type of the data.
    """
    shift = signed_shift(call.spec(WEIGHTS))
    if not call.has_data(WEIGHTS):
        stored = stored_matrices(call, matrix)
        if not shift:
            return stored
        room = stages.room(matrix)
        stages.move(stored, room, shift)
        return room
    layout = OneDnnLayout(desc.desc(Arg.WEIGHTS), matrix)

    def make(arrays: Arrays, _: object) -> Array:
        return pack(np.asarray(given(arrays[0]) - np.int16(shift), np.int8), layout)

    packed = call.read_packed(WEIGHTS, f"integer minus {shift} {data} {layout.key}", make, layout)
    return Argument(layout.desc, packed)
