"""Tensors, encodings and params as text of C."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dovetail.csource.literals import braces, integer, single, text
from dovetail.csource.scalars import scalar_member
from dovetail.ir import (
    AxisScaleOffset,
    Blob,
    Block,
    BlockwiseExpansion,
    Encoding,
    EncodingKind,
    FloatBlock,
    Mapped,
    MemoryType,
    Scalar,
    ScaleOffset,
    Shape,
    Tensor,
    Vector,
)
from dovetail_saver.vendor.encodings import STRUCT_OF
from dovetail_saver.vendor.program_file import ProgramFile

_UNDEFINED = 0x7FFFFFFF
_MEMBERS: Mapping[EncodingKind, str] = {
    EncodingKind.SCALE_OFFSET: "scaleOffsetEncoding",
    EncodingKind.AXIS_SCALE_OFFSET: "axisScaleOffsetEncoding",
    EncodingKind.BW_SCALE_OFFSET: "bwScaleOffsetEncoding",
    EncodingKind.BW_AXIS_SCALE_OFFSET: "bwAxisScaleOffsetEncoding",
    EncodingKind.BLOCK: "blockEncoding",
    EncodingKind.BLOCKWISE_EXPANSION: "blockwiseExpansion",
    EncodingKind.VECTOR: "vectorEncoding",
    EncodingKind.FLOAT_BLOCK: "floatBlockEncoding",
    EncodingKind.BW_AXIS_SCALE_OFFSET_MAPPED: "bwAxisScaleOffsetMapped",
    EncodingKind.BW_BLOCK_MAPPED: "bwBlockEncodingMapped",
    EncodingKind.BW_BLOCKWISE_EXPANSION_MAPPED: "bwBlockwiseExpansionMapped",
    EncodingKind.BW_FLOAT_BLOCK: "bwFloatBlockEncoding",
}
# Those that the union has a pointer to.
_POINTERS = (EncodingKind.BLOCKWISE_EXPANSION, EncodingKind.VECTOR)


@dataclass(frozen=True, slots=True)
class Buffer:
    """The memory of a tensor.

    Attributes:
        nbytes: Its size.
        data: Its content; None if it does not matter.
    """

    nbytes: int
    data: Blob | None


class TensorText:
    """Writes the declarations of tensors.

    Args:
        file: The program.
        left_out: Receives what C cannot express.
    """

    def __init__(self, file: ProgramFile, left_out: Callable[[str], None]) -> None:
        self._file = file
        self._left_out = left_out

    def declare(
        self,
        variable: str,
        tensor: Tensor,
        buffer: Buffer | None,
        like: str | None = None,
        shape: Shape | None = None,
    ) -> None:
        """Declare a tensor.

        Args:
            variable: Its variable.
            tensor: The tensor.
            buffer: Its memory.
            like: The variable that was created for the tensor, if this is a use of it.
            shape: Its shape in this use.
        """
        version = 2 if tensor.dynamic else 1
        shape = tensor.shape if shape is None else shape
        dims = f"{like}_dims" if like and shape == tensor.shape else f"{variable}_dims"
        if not like or shape != tensor.shape:
            self._array("uint32_t", dims, map(str, shape))
        dims = dims if shape else "NULL"
        quantization = f"{like or variable}_quantizeParams"
        if not like:
            self._quantization(quantization, tensor.encoding)
        pointer, nbytes = "NULL", 0
        if buffer is not None:
            nbytes = buffer.nbytes
            pointer = f"(void*){self._file.array(tensor.dtype, nbytes, buffer.data)}"
        self._declare("Qnn_ClientBuffer_t", f"{variable}_clientBuf", [pointer, str(nbytes)])
        memory_type = MemoryType.RAW if like else tensor.memory_type  # of a use: its own buffer
        fields = [
            f"{like}.v{version}.id" if like else "0",
            text(tensor.name),
            f"(Qnn_TensorType_t){int(tensor.kind)}",
            str(int(tensor.data_format)),
            f"(Qnn_DataType_t){int(tensor.dtype)}",
            quantization,
            str(len(shape)),
            dims,
            f"(Qnn_TensorMemType_t){int(memory_type)}",
            f"{variable}_clientBuf",
        ]
        if version == 2:
            marks = f"{like or variable}_isDynamicDimensions"
            if not like:
                self._array("uint8_t", marks, (str(int(mark)) for mark in tensor.dynamic))
            fields += [marks, f"{{(Qnn_SparseLayoutType_t){_UNDEFINED}, .hybridCoo = {{0, 0}}}}"]
            fields += ["0"]
        self._declare(f"Qnn_TensorV{version}_t", f"{variable}_v{version}", fields)
        inner = f".v{version} = {variable}_v{version}"
        self._declare("Qnn_Tensor_t", variable, [f"(Qnn_TensorVersion_t){version}", inner])

    def scalar(self, variable: str, scalar: Scalar) -> None:
        """Declare a scalar."""
        fields = [f"(Qnn_DataType_t){int(scalar.dtype)}", scalar_member(scalar)]
        self._declare("Qnn_Scalar_t", variable, fields)

    # -- encodings -------------------------------------------------------------------------------

    def _quantization(self, variable: str, encoding: Encoding | None) -> None:
        if encoding is None:
            undefined = [f"(Qnn_Definition_t){_UNDEFINED}"]
            undefined += [f"(Qnn_QuantizationEncoding_t){_UNDEFINED}"]
            undefined += [".scaleOffsetEncoding = {0.0, 0}"]
            self._declare("Qnn_QuantizeParams_t", variable, undefined)
            return
        kind = encoding.kind
        fields = self._fields(variable, encoding)
        if kind in (EncodingKind.SCALE_OFFSET, EncodingKind.BW_SCALE_OFFSET):
            inner = braces(fields)
        else:
            inner = f"{variable}_{_MEMBERS[kind]}"
            self._declare(STRUCT_OF[kind].decode(), inner, fields)
            inner = f"&{inner}" if kind in _POINTERS else inner
        values = ["(Qnn_Definition_t)1", f"(Qnn_QuantizationEncoding_t){int(kind)}"]
        values.append(f".{_MEMBERS[kind]} = {inner}")
        self._declare("Qnn_QuantizeParams_t", variable, values)

    def _fields(self, variable: str, encoding: Any) -> list[str]:
        """Return the fields of the struct of an encoding; declare its arrays."""
        match encoding:
            case ScaleOffset(scale, offset, bitwidth):
                head = [] if bitwidth is None else [str(bitwidth)]
                return [*head, single(scale), integer(offset)]
            case AxisScaleOffset():
                return self._axis(variable, encoding)
            case Block(block_size, scales, offsets, bitwidth):
                self._lose(bitwidth, "the bit width of a block encoding")
                return self._block(variable, block_size, scales, offsets)
            case BlockwiseExpansion():
                self._lose(encoding.bitwidth, "the bit width of a blockwise expansion")
                return self._expansion(variable, encoding)
            case FloatBlock(block_size, scales, offsets, bitwidth):
                sizes = self._array("uint32_t", f"{variable}_blockSize", map(str, block_size))
                flat = (np.asarray(each).reshape(-1).tolist() for each in (scales, offsets))
                pairs = zip(*flat, strict=True)
                array = self._array(
                    "Qnn_FloatScaleOffset_t",
                    f"{variable}_scaleOffsets",
                    (braces((single(s), single(o))) for s, o in pairs),
                )
                head = [] if bitwidth is None else [str(bitwidth)]
                return [*head, sizes, array]
            case Mapped(AxisScaleOffset() as base, mapping):
                bits, *rest = self._axis(variable, base)
                return [bits, str(int(mapping)), *rest]
            case Mapped(Block() as base, mapping):
                rest = self._block(variable, base.block_size, base.scales, base.offsets)
                return [str(base.bitwidth), str(int(mapping)), *rest]
            case Mapped(BlockwiseExpansion() as base, mapping):
                rest = self._expansion(variable, base)
                return [str(base.bitwidth), str(int(mapping)), *rest]
            case Vector(base):
                sizes = "rows_per_block columns_per_block vector_dimension vector_stride"
                names = (*sizes.split(), "index_bitwidth")
                numbers = [str(getattr(encoding, name)) for name in names]
                return [braces(self._axis(variable, base)), *numbers]
        raise AssertionError(encoding)

    def _axis(self, variable: str, encoding: AxisScaleOffset) -> list[str]:
        count, axis = len(encoding.scales), str(encoding.axis)
        if encoding.bitwidth is None:
            pairs = self._pairs(variable, encoding.scales, encoding.offsets)
            return [axis, str(count), pairs]
        scales = self._array("float", f"{variable}_scales", map(single, encoding.scales))
        offsets = "NULL"
        if encoding.offsets is not None:
            numbers = (integer(int(n)) for n in encoding.offsets)
            offsets = self._array("int32_t", f"{variable}_offsets", numbers)
        return [str(encoding.bitwidth), axis, str(count), scales, offsets]

    def _block(self, variable: str, size: Shape, scales: Any, offsets: Any) -> list[str]:
        sizes = self._array("uint32_t", f"{variable}_blockSize", map(str, size))
        return [sizes, self._pairs(variable, scales, offsets)]

    def _expansion(self, variable: str, encoding: BlockwiseExpansion) -> list[str]:
        factors, is_wide = encoding.block_scales, encoding.block_scales.dtype == np.uint16
        array = self._array(
            "uint16_t" if is_wide else "uint8_t",
            f"{variable}_blockScales",
            map(str, factors.reshape(-1).tolist()),
        )
        return [
            str(encoding.axis),
            self._pairs(variable, encoding.scales, encoding.offsets),
            str(factors.shape[1]),
            str(encoding.block_scale_bitwidth),
            f"(Qnn_BlockwiseExpansionBlockScaleStorageType_t){int(is_wide)}",
            f".blocksScale{16 if is_wide else 8} = {array}",
        ]

    def _pairs(self, variable: str, scales: Any, offsets: Any) -> str:
        flat = np.asarray(scales).reshape(-1)
        zeros = np.zeros(flat.size, np.int32) if offsets is None else np.asarray(offsets)
        pairs = zip(flat.tolist(), zeros.reshape(-1).tolist(), strict=True)
        values = (f"{{{single(scale)}, {offset}}}" for scale, offset in pairs)
        return self._array("Qnn_ScaleOffset_t", f"{variable}_scaleOffsets", values)

    def _lose(self, value: object, what: str) -> None:
        if value is not None:
            self._left_out(what)

    # -- text ------------------------------------------------------------------------------------

    def _array(self, kind: str, name: str, values: Any) -> str:
        """Declare an array and return its name; NULL for an empty one, which C does not have."""
        items = list(values)
        if not items:
            return "NULL"
        self._file.line(f"{kind} {name}[] = {braces(items)};")
        return name

    def _declare(self, kind: str, name: str, fields: list[str]) -> None:
        self._file.line(f"{kind} {name} = {braces(fields)};")
