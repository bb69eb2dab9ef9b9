"""Tensors and encodings as initializers of a `model.cpp`."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator

import numpy as np

from dovetail.csource.literals import double, element_type, integer, single
from dovetail.errors import Problem
from dovetail.ir import (
    AxisScaleOffset,
    DataFormat,
    DType,
    Encoding,
    ScaleOffset,
    Tensor,
    TensorKind,
)

_SPARSE = "{QNN_SPARSE_LAYOUT_UNDEFINED, {.hybridCoo= {0, 0}}}"
_FLAT = "FLAT_BUFFER"  # the name of DENSE that all versions have

Lines = Generator[str, None, str]  # the declarations that a result needs, and the result


class TensorText:
    """Writes tensors.

    Args:
        version: Version of their struct.

    Attributes:
        problems: Encodings that cannot be written.
    """

    def __init__(self, version: int) -> None:
        self._version = version
        self.problems: list[Problem] = []

    def struct(self, tensor: Tensor, name: str, *, has_binary: bool = False) -> Lines:
        """Yield the arrays of a tensor and return its struct.

        Args:
            tensor: The tensor.
            name: Its name in the file.
            has_binary: Whether its data are among the weights; otherwise they are an array.
        """
        dimensions = yield from _array("uint32_t", f"dimensions_{name}", map(str, tensor.shape))
        pointer, size = "nullptr", "0"
        if has_binary:
            pointer, size = f"BINVARSTART({name})", f"BINLEN({name})"
        elif tensor.data is not None:
            values = yield from _array(_element(tensor), f"values_{name}", _values(tensor))
            pointer, size = f"(uint8_t*){values}", str(tensor.data.nbytes)
            pointer = "nullptr" if values == "nullptr" else pointer
        quantization = yield from self._quantization(tensor, name)
        fields = [
            ".id= 0",
            f'.name= "{name}"',
            f".type= QNN_TENSOR_TYPE_{tensor.kind.name}",
            f".dataFormat= QNN_TENSOR_DATA_FORMAT_{_format(tensor.data_format)}",
            f".dataType= QNN_DATATYPE_{tensor.dtype.name}",
            f".quantizeParams= {quantization}",
            f".rank= {len(tensor.shape)}",
            f".dimensions= {dimensions}",
            f".memType= QNN_TENSORMEMTYPE_{tensor.memory_type.name}",
            f"{{.clientBuf= {{.data= {pointer}, .dataSize= {size}}}}}",
        ]
        if self._version > 1:
            marks = (str(int(mark)) for mark in tensor.dynamic)
            dynamic = yield from _array("uint8_t", f"dynamic_{name}", marks)
            fields += [f".isDynamicDimensions= {dynamic}", f".sparseParams= {_SPARSE}"]
            fields += [".isProduced= 0"]
        inner = ", ".join(fields)
        return (
            f"(Qnn_Tensor_t){{.version= QNN_TENSOR_VERSION_{self._version}, "
            f"{{.v{self._version}= {{{inner}}}}}}}"
        )

    def omitted(self, name: str, model: str) -> Iterator[str]:
        """Yield the declaration of the tensor that represents omitted inputs."""
        struct = yield from self.struct(Tensor(name, DType.UNDEFINED, (), TensorKind.NULL), name)
        yield f'VALIDATE({model}.addTensor("{name}", {struct}), err);'

    def _quantization(self, tensor: Tensor, name: str) -> Lines:
        encoding = tensor.encoding
        if encoding is None:
            undefined = "QNN_DEFINITION_UNDEFINED, QNN_QUANTIZATION_ENCODING_UNDEFINED"
            return f"{{{undefined}, {{.scaleOffsetEncoding= {{.scale= 0.0f, .offset= 0}}}}}}"
        member = yield from self._encoding(encoding, tensor, name)
        kind = f"QNN_QUANTIZATION_ENCODING_{encoding.kind.name}"
        return f"{{QNN_DEFINITION_DEFINED, {kind}, {{{member}}}}}"

    def _encoding(self, encoding: Encoding, tensor: Tensor, name: str) -> Lines:
        if isinstance(encoding, ScaleOffset):
            pair = _pair(encoding.scale, encoding.offset)
            if encoding.bitwidth is None:
                return f".scaleOffsetEncoding= {{{pair}}}"
            return f".bwScaleOffsetEncoding= {{.bitwidth= {encoding.bitwidth}, {pair}}}"
        if not isinstance(encoding, AxisScaleOffset):
            text = f"encoding of kind {encoding.kind.name}, whose form in C++ is not known"
            self.problems.append(Problem(text, f"tensor '{tensor.name}'", "export it as qnn-json"))
            return ""
        scales = np.asarray(encoding.scales, np.float32).tolist()
        offsets = encoding.offsets
        count = f".axis= {encoding.axis}, .num"
        if encoding.bitwidth is None:
            whole = [0] * len(scales) if offsets is None else [int(o) for o in offsets]
            pairs = (f"{{{_pair(s, o)}}}" for s, o in zip(scales, whole, strict=True))
            array = yield from _array("Qnn_ScaleOffset_t", f"scale_offsets_{name}", pairs)
            inner = f"{count}ScaleOffsets= {len(scales)}, .scaleOffset= {array}"
            return f".axisScaleOffsetEncoding= {{{inner}}}"
        numbers = yield from _array("float", f"scales_{name}", map(_float, scales))
        whole_name = "nullptr"
        if offsets is not None:
            texts = (str(int(o)) for o in offsets)
            whole_name = yield from _array("int32_t", f"offsets_{name}", texts)
        inner = f".bitwidth= {encoding.bitwidth}, {count}Elements= {len(scales)}"
        inner += f", .scales= {numbers}, .offsets= {whole_name}"
        return f".bwAxisScaleOffsetEncoding= {{{inner}}}"


def _array(kind: str, name: str, items: Iterator[str]) -> Lines:
    """Yield the declaration of an array and return its name; nullptr if it would be empty."""
    inner = ", ".join(items)
    if not inner:
        return "nullptr"
    yield f"{kind} {name}[] = {{{inner}}};"
    return name


def _pair(scale: float, offset: int) -> str:
    return f".scale= {_float(scale)}, .offset= {integer(offset)}"


def _float(value: float) -> str:
    """Return a float of 32 bits with all its digits."""
    return f"{double(value)}f" if math.isfinite(value) else double(value)


def _format(layout: DataFormat) -> str:
    return _FLAT if layout is DataFormat.DENSE else layout.name


def _element(tensor: Tensor) -> str:
    return element_type(tensor.dtype)


def _values(tensor: Tensor) -> Iterator[str]:
    """Yield the stored elements of a tensor as literals."""
    if tensor.data is None:
        raise AssertionError(tensor)
    stored = tensor.data.bytes
    is_whole_bytes = _element(tensor) == "uint8_t"
    values = stored if is_whole_bytes else stored.view(tensor.dtype.storage)
    if values.dtype == np.float16:
        values = values.view(np.uint16)
    if values.dtype.kind == "f":
        write = single if values.dtype == np.float32 else double
        return (write(v) for v in values.tolist())
    return (integer(v) for v in values.tolist())
