"""Constants and signatures of oneDNN's C API (version 3), as far as they are used.

Handles are opaque pointers. Functions that return a status have the restype `c_int`; `errors`
describes the statuses.

Source: oneDNN 3.2, dnnl.h, dnnl_types.h, dnnl_common.h, dnnl_common_types.h
"""

from __future__ import annotations

import ctypes
import enum
from ctypes import POINTER, c_char_p, c_float, c_int, c_int32, c_int64, c_size_t, c_uint, c_void_p
from typing import Any

MAX_DIMS = 12
Dims = c_int64 * MAX_DIMS

CPU = 1
IN_ORDER = 1
FORWARD_TRAINING = 64  # returns means and variances, too
FORWARD_INFERENCE = 96
CONVOLUTION_DIRECT = 1
DECONVOLUTION_DIRECT = 0xA
LRN_ACROSS_CHANNELS = 0xAFF
SOFTMAX_ACCURATE = 0x30000
USER_SCRATCHPAD = 1
MULTIPLE_SOURCE = 1024  # argument: the first source of a concatenation
SCALES = 4096  # plus an argument: its scales
ZERO_POINTS = 8192  # plus an argument: its zero points
POST_OP_BASE = 32768  # times the index, from 1: first argument of a post-op
ANY_FORMAT = 1
BLOCKED = 2  # format kind of layouts described by strides and blocks


class DataType(enum.IntEnum):
    """Element types."""

    UNDEFINED = 0
    F16 = 1
    BF16 = 2
    F32 = 3
    S32 = 4
    S8 = 5
    U8 = 6

    @property
    def text(self) -> str:
        """The usual name of the type."""
        return _TYPE_NAMES.get(self, self.name.lower())

    @property
    def nbytes(self) -> int:
        """Size of an element."""
        return _TYPE_BYTES.get(self, 4)


_TYPE_NAMES = {DataType.F16: "float16", DataType.BF16: "bfloat16", DataType.F32: "float32"}
_TYPE_BYTES = {DataType.S8: 1, DataType.U8: 1, DataType.F16: 2, DataType.BF16: 2}


class Algorithm(enum.IntEnum):
    """Elementwise functions."""

    RELU = 0x20
    TANH = 0x21
    ELU = 0x22
    SQUARE = 0x23
    ABS = 0x24
    SQRT = 0x25
    LINEAR = 0x26
    SOFT_RELU = 0x27
    HARDSIGMOID = 0x28
    LOGISTIC = 0x29
    EXP = 0x2A
    SWISH = 0x2C
    LOG = 0x2D
    CLIP = 0x2E
    POW = 0x30
    GELU_ERF = 0x31
    ROUND = 0x32
    HARDSWISH = 0x34


class Reduction(enum.IntEnum):
    """Reductions."""

    MAXIMUM = 0x2FFF2
    MINIMUM = 0x2FFF3


class BinaryAlgorithm(enum.IntEnum):
    """Functions of two tensors."""

    ADD = 0x1FFF0
    MULTIPLY = 0x1FFF1
    MAXIMUM = 0x1FFF2  # the second operand if one is NaN
    DIVIDE = 0x1FFF4
    SUBTRACT = 0x1FFF5


class PoolingAlgorithm(enum.IntEnum):
    """Functions of a window."""

    MAXIMUM = 0x1FF
    AVERAGE_WITH_PADDING = 0x2FF
    AVERAGE = 0x3FF


class ResamplingAlgorithm(enum.IntEnum):
    """Interpolations."""

    NEAREST = 0x2FFF0
    LINEAR = 0x2FFF1


class NormalizationFlag(enum.IntFlag):
    """Optional operands of a normalization."""

    GIVEN_STATISTICS = 0x1
    SCALE = 0x2
    SHIFT = 0x4


class Query(enum.IntEnum):
    """Queries of primitive descriptors and memory descriptors."""

    IMPLEMENTATION = 8
    STRIDES = 14
    ARGUMENT = 255
    NDIMS = 256
    DIMS = 257
    DATA_TYPE = 258
    PADDED_DIMS = 260
    FORMAT_KIND = 262
    INNER_BLOCKS = 263
    INNER_BLOCK_SIZES = 264
    INNER_BLOCK_DIMS = 265


class Arg(enum.IntEnum):
    """Arguments of a primitive."""

    SOURCE = 1
    OTHER = 2
    THIRD = 3
    DESTINATION = 17
    DESTINATION_ITER = 18
    DESTINATION_ITER_C = 19
    WEIGHTS = 33
    WEIGHTS_ITER = 34
    BIAS = 41
    MEAN = 49
    VARIANCE = 50
    SCALE = 51
    SHIFT = 52
    SCRATCHPAD = 80


class ExecArg(ctypes.Structure):
    """An argument of an execution."""

    _fields_ = (("arg", c_int), ("memory", c_void_p))


class Version(ctypes.Structure):
    """Version and runtimes of a library."""

    _fields_ = (
        ("major", c_int),
        ("minor", c_int),
        ("patch", c_int),
        ("hash", c_char_p),
        ("cpu_runtime", c_uint),
        ("gpu_runtime", c_uint),
    )


_OUT = POINTER(c_void_p)
_DIMS = POINTER(c_int64)
_CONVOLUTION = (
    *(_OUT, c_void_p, c_int, c_int, c_void_p, c_void_p, c_void_p, c_void_p),
    *(_DIMS, _DIMS, _DIMS, _DIMS, c_void_p),
)

_STATUS_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "engine_create": (_OUT, c_int, c_size_t),
    "engine_destroy": (c_void_p,),
    "stream_create": (_OUT, c_void_p, c_uint),
    "stream_destroy": (c_void_p,),
    "memory_desc_create_with_strides": (_OUT, c_int, _DIMS, c_int, _DIMS),
    "memory_desc_create_with_tag": (_OUT, c_int, _DIMS, c_int, c_int),
    "memory_desc_clone": (_OUT, c_void_p),
    "memory_desc_destroy": (c_void_p,),
    "memory_desc_query": (c_void_p, c_int, c_void_p),
    "memory_create": (_OUT, c_void_p, c_void_p, c_void_p),
    "memory_set_data_handle": (c_void_p, c_void_p),
    "memory_destroy": (c_void_p,),
    "primitive_attr_create": (_OUT,),
    "primitive_attr_destroy": (c_void_p,),
    "primitive_attr_set_scratchpad_mode": (c_void_p, c_int),
    "primitive_attr_set_fpmath_mode": (c_void_p, c_int),
    "primitive_attr_set_scales_mask": (c_void_p, c_int, c_int),
    "primitive_attr_set_zero_points_mask": (c_void_p, c_int, c_int),
    "primitive_attr_set_post_ops": (c_void_p, c_void_p),
    "post_ops_create": (_OUT,),
    "post_ops_destroy": (c_void_p,),
    "post_ops_append_eltwise": (c_void_p, c_int, c_float, c_float),
    "post_ops_append_binary": (c_void_p, c_int, c_void_p),
    "post_ops_append_sum": (c_void_p, c_float, c_int32, c_int),
    "post_ops_append_prelu": (c_void_p, c_int),
    "convolution_forward_primitive_desc_create": _CONVOLUTION,
    "deconvolution_forward_primitive_desc_create": _CONVOLUTION,
    "matmul_primitive_desc_create": (_OUT, *(c_void_p,) * 6),
    "inner_product_forward_primitive_desc_create": (_OUT, c_void_p, c_int, *(c_void_p,) * 5),
    "eltwise_forward_primitive_desc_create": (
        *(_OUT, c_void_p, c_int, c_int, c_void_p, c_void_p),
        *(c_float, c_float, c_void_p),
    ),
    "binary_primitive_desc_create": (_OUT, c_void_p, c_int, *(c_void_p,) * 4),
    "pooling_forward_primitive_desc_create": (
        *(_OUT, c_void_p, c_int, c_int, c_void_p, c_void_p),
        *(_DIMS, _DIMS, _DIMS, _DIMS, _DIMS, c_void_p),
    ),
    "softmax_forward_primitive_desc_create": (
        *(_OUT, c_void_p, c_int, c_int, c_void_p, c_void_p, c_int, c_void_p),
    ),
    "layer_normalization_forward_primitive_desc_create": (
        *(_OUT, c_void_p, c_int, c_void_p, c_void_p, c_void_p, c_float, c_uint, c_void_p),
    ),
    "batch_normalization_forward_primitive_desc_create": (
        *(_OUT, c_void_p, c_int, c_void_p, c_void_p, c_float, c_uint, c_void_p),
    ),
    "lrn_forward_primitive_desc_create": (
        *(_OUT, c_void_p, c_int, c_int, c_void_p, c_void_p),
        *(c_int64, c_float, c_float, c_float, c_void_p),
    ),
    "reduction_primitive_desc_create": (
        *(_OUT, c_void_p, c_int, c_void_p, c_void_p, c_float, c_float, c_void_p),
    ),
    "resampling_forward_primitive_desc_create": (
        *(_OUT, c_void_p, c_int, c_int, POINTER(c_float), c_void_p, c_void_p, c_void_p),
    ),
    "concat_primitive_desc_create": (
        *(_OUT, c_void_p, c_void_p, c_int, c_int, POINTER(c_void_p), c_void_p),
    ),
    "lstm_forward_primitive_desc_create": (
        *(_OUT, c_void_p, c_int, c_int, *(c_void_p,) * 11, c_uint, c_void_p),
    ),
    "gru_forward_primitive_desc_create": (
        *(_OUT, c_void_p, c_int, c_int, *(c_void_p,) * 7, c_uint, c_void_p),
    ),
    "lbr_gru_forward_primitive_desc_create": (
        *(_OUT, c_void_p, c_int, c_int, *(c_void_p,) * 7, c_uint, c_void_p),
    ),
    "reorder_primitive_desc_create": (_OUT, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p),
    "primitive_desc_query": (c_void_p, c_int, c_int, c_void_p),
    "primitive_desc_destroy": (c_void_p,),
    "primitive_create": (_OUT, c_void_p),
    "primitive_get_primitive_desc": (c_void_p, _OUT),
    "primitive_destroy": (c_void_p,),
}

_OTHER_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "version": (POINTER(Version), ()),
    "get_effective_cpu_isa": (c_int, ()),
    "memory_desc_equal": (c_int, (c_void_p, c_void_p)),
    "memory_desc_get_size": (c_size_t, (c_void_p,)),
    "primitive_desc_query_md": (c_void_p, (c_void_p, c_int, c_int)),
}


def declare(library: ctypes.CDLL) -> dict[str, Any]:
    """Return the library's functions by name, without the prefix `dnnl_`, with their signatures.

    Raises:
        AttributeError: The library lacks one.
    """
    found: dict[str, Any] = {}
    signatures = {name: (c_int, types) for name, types in _STATUS_FUNCTIONS.items()}
    for name, (result, arguments) in (signatures | _OTHER_FUNCTIONS).items():
        function = getattr(library, f"dnnl_{name}")
        function.restype, function.argtypes = result, arguments
        found[name] = function
    return found
