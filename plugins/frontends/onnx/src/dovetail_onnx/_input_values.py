"""Inputs whose values the user gives: they become constants before anything is built."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec
import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, ValueInfoProto

from dovetail.errors import Problem
from dovetail.ir import Array, DType, Spec
from dovetail.ops import from_real, unstorable
from dovetail_onnx._dtypes import PACKED_RANGES, as_bytes, dtype_of, element_type_name
from dovetail_onnx._inputs import dims_of
from dovetail_onnx._source import SourceGraph
from dovetail_onnx.options import OnnxOptions


def value_problems(info: ValueInfoProto, values: Array) -> Iterator[Problem]:
    """Yield why values cannot be those of an input.

    Args:
        info: The input as the file states it.
        values: Real values.
    """
    where = f"values of input '{info.name}'"
    dims, real = dims_of(info), _real(values)
    if dims is not None and (
        len(dims) != real.ndim
        or any(isinstance(d, int) and d != n for d, n in zip(dims, real.shape, strict=True))
    ):
        said = ", ".join("?" if dim is None else str(dim) for dim in dims)
        yield Problem(f"shape is {real.shape}, but the model declares ({said})", where)
    code = info.type.tensor_type.elem_type
    dtype = dtype_of(code)
    if dtype is None:
        text = f"unsupported element type {element_type_name(code)} of the input"
        yield Problem(text, where)
    elif real.dtype.kind not in "fiub":
        yield Problem(f"expected real numbers, got type {real.dtype}", where)
    elif (wrong := _beyond(real, code, dtype)).any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        text = f"element {at} is {real[at]}, which {element_type_name(code)} cannot hold"
        yield Problem(text, where)


def with_values(source: SourceGraph, options: OnnxOptions) -> tuple[SourceGraph, OnnxOptions]:
    """Return a model whose inputs with given values are constants, and the options for the rest.

    The shapes of the values bind symbolic dimensions, which other inputs may have too.

    Args:
        source: The model.
        options: Those that fit it.
    """
    infos = {name: source.inputs[name] for name in options.input_values}
    symbols = {
        dim: extent
        for name, info in infos.items()
        for dim, extent in zip(
            dims_of(info) or (), np.shape(options.input_values[name]), strict=False
        )
        if isinstance(dim, str)
    }
    constants = {name: _tensor(info, options.input_values[name]) for name, info in infos.items()}
    inputs = {name: info for name, info in source.inputs.items() if name not in infos}
    return (
        replace(source, inputs=inputs, initializers=source.initializers | constants),
        msgspec.structs.replace(options, symbols=symbols | dict(options.symbols)),
    )


def _tensor(info: ValueInfoProto, values: Array) -> TensorProto:
    code, real = info.type.tensor_type.elem_type, _real(values)
    dtype = dtype_of(code)
    if dtype is None:
        raise AssertionError(f"the type of input '{info.name}' was not checked")
    stored = from_real(real, Spec(dtype, real.shape))
    data = _halved(stored) if code in PACKED_RANGES else stored
    return TensorProto(name=info.name, data_type=code, dims=real.shape, raw_data=data.tobytes())


def _halved(stored: Array) -> Array:
    """Return integers of 4 bits two to a byte, the first in the low half."""
    low = stored.reshape(-1).view(np.uint8) & 15
    even = np.append(low, np.zeros(low.size % 2, np.uint8))
    made: Array = even[::2] | even[1::2] << 4
    return made


def _beyond(real: Array, code: int, dtype: DType) -> NDArray[np.bool_]:
    """Return which values an element type cannot hold."""
    wrong = unstorable(real, dtype)
    if code in PACKED_RANGES:
        low, high = PACKED_RANGES[code]
        wrong |= (real < low) | (real > high)
    return wrong


def _real(values: Array) -> Array:
    found = np.asarray(values)
    # NumPy does not treat ml_dtypes' types as numbers
    return found.astype(np.float32) if found.dtype.name == "bfloat16" else as_bytes(found)
