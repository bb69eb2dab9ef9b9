"""Tensors and scalars: the inputs, outputs and params of nodes."""

from __future__ import annotations

import enum
from collections.abc import Sequence

import msgspec
import numpy as np

from dovetail.ir.dtypes import DType
from dovetail.ir.encodings import Encoding, Shape
from dovetail.ir.storage import Array, Blob, pack, unpack, unpack_stored


class TensorKind(enum.IntEnum):
    """The writer and reader of a tensor; QNN's numbers.

    Source: spec/qnn_enums.md, Qnn_TensorType_t.

    Attributes:
        is_input: True if the application may write it before a run; see `Graph.is_input`.
        is_output: True if the application may read it after a run; see `Graph.is_output`.
        is_static: True if its data are part of the graph.
        is_internal: True if only nodes write and read it.
        is_updateable: True if its data or encoding may change after finalize; it must not be
            folded.
    """

    APP_WRITE = 0
    APP_READ = 1
    APP_READWRITE = 2
    NATIVE = 3
    STATIC = 4
    NULL = 5
    UPDATEABLE_STATIC = 6
    UPDATEABLE_NATIVE = 7
    UPDATEABLE_APP_WRITE = 8
    UPDATEABLE_APP_READ = 9
    UPDATEABLE_APP_READWRITE = 10
    OPTIONAL_APP_WRITE = 11
    OPTIONAL_APP_READ = 12
    OPTIONAL_APP_READWRITE = 13

    # Found once: these are asked for each of thousands of tensors.
    is_input: bool
    is_output: bool
    is_static: bool
    is_internal: bool
    is_updateable: bool

    def __init__(self, _: int) -> None:
        name = self.name
        self.is_input = name.endswith(("APP_WRITE", "APP_READWRITE"))
        self.is_output = name.endswith(("APP_READ", "APP_READWRITE"))
        self.is_static = name.endswith("STATIC")
        self.is_internal = name.endswith("NATIVE")
        self.is_updateable = name.startswith("UPDATEABLE")


class MemoryType(enum.IntEnum):
    """The memory in which an application passes the values of a tensor; QNN's numbers.

    Source: spec/qnn_enums.md, Qnn_TensorMemType_t.
    """

    RAW = 0
    MEMHANDLE = 1
    RETRIEVE_RAW = 2


class DataFormat(enum.IntEnum):
    """The layout of a tensor's values in memory; QNN's numbers.

    The values of a DENSE tensor are in C order. Others are opaque bytes.
    Source: spec/qnn_enums.md, Qnn_TensorDataFormat_t.
    """

    DENSE = 0
    SPARSE = 1
    CODEBOOK = 2
    MX = 3
    UBWC_RGBA8888 = 4
    UBWC_NV12 = 5
    UBWC_NV12_Y = 6
    UBWC_NV12_UV = 7
    HMX_WEIGHT_LAYOUT = 8
    UBWC_NV124R = 9
    UBWC_NV124R_Y = 10
    UBWC_NV124R_UV = 11


# Python 3.11 takes ten times as long to look up a member of an enum as a name.
_STATIC, _DENSE = TensorKind.STATIC, DataFormat.DENSE


class Spec(msgspec.Struct, frozen=True, gc=False):  # in no cycle; there are many
    """Type, shape and encoding of a tensor."""

    dtype: DType
    shape: Shape
    encoding: Encoding | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of its stored form."""
        return self.dtype.nbytes(self.shape)


class Tensor:
    """A named tensor of a graph. Compared by identity.

    Attributes:
        name: Unique within the graph.
        dtype: Element type.
        shape: Maximum sizes of its axes, which are the sizes unless `dynamic` says otherwise; any
            rank, and sizes of zero.
        kind: Its writer and reader.
        encoding: For fixed-point types.
        data: The stored bytes of a static tensor.
        source: Its name in the user's model.
        source_perm: Set if its layout was changed: the source tensor transposed by this is the
            tensor.
        dynamic: Whether the size of each axis may be less than its maximum in an execution; empty
            if no axis is dynamic.
        memory_type: The memory in which an application passes its values.
        data_format: The layout of its values.
    """

    __slots__ = (
        "data",
        "data_format",
        "dtype",
        "dynamic",
        "encoding",
        "kind",
        "memory_type",
        "name",
        "shape",
        "source",
        "source_perm",
    )

    def __init__(
        self,
        name: str,
        dtype: DType,
        shape: Shape,
        kind: TensorKind = TensorKind.NATIVE,
        *,
        encoding: Encoding | None = None,
        data: Blob | None = None,
        source: str | None = None,
        source_perm: Shape | None = None,
        dynamic: Sequence[bool] = (),
        memory_type: MemoryType = MemoryType.RAW,
        data_format: DataFormat = DataFormat.DENSE,
    ) -> None:
        self.name = name
        self.dtype = dtype
        self.shape = tuple(map(int, shape))
        self.kind = kind
        self.encoding = encoding
        self.data = data
        self.source = name if source is None else source
        self.source_perm = source_perm
        self.dynamic = tuple(map(bool, dynamic)) if any(dynamic) else ()
        self.memory_type = memory_type
        self.data_format = data_format

    def __getstate__(self) -> object:
        return super().__getstate__()  # stated here: old protocols of pickle require it

    @classmethod
    def static(
        cls,
        name: str,
        values: Array,
        dtype: DType | None = None,
        *,
        encoding: Encoding | None = None,
        source: str | None = None,
        source_perm: Shape | None = None,
    ) -> Tensor:
        """Create a STATIC tensor from logical values of any shape.

        Args:
            name: Its name.
            values: Stored integers or numbers.
            dtype: Type to store them as; by default the plain type of the array.
            encoding: For fixed-point types.
            source: Its name in the user's model.
            source_perm: Its layout change from there.
        """
        dtype = DType.of(values.dtype) if dtype is None else dtype
        return cls(
            name,
            dtype,
            values.shape,
            _STATIC,
            encoding=encoding,
            data=pack(values, dtype),
            source=source,
            source_perm=source_perm,
        )

    @property
    def spec(self) -> Spec:
        """Its type, shape and encoding."""
        return Spec(self.dtype, self.shape, self.encoding)

    def values(self) -> Array:
        """Return the logical values of a static tensor (see `dovetail.ir.storage.unpack`).

        Raises:
            ValueError: The tensor has no data, or is not dense.
        """
        return unpack(self._dense_data(), self.dtype, self.shape)

    def stored(self) -> Array:
        """Return the stored elements of a static tensor, dtype `dtype.storage`, one item each.

        Raises:
            ValueError: The tensor has no data, or is not dense.
        """
        return unpack_stored(self._dense_data(), self.dtype, self.shape)

    def _dense_data(self) -> Blob:
        if self.data is None:
            raise ValueError(f"tensor {self.name} has no data")
        if self.data_format is not _DENSE:
            raise ValueError(f"the data of tensor {self.name} are {self.data_format.name}")
        return self.data

    def __repr__(self) -> str:
        return f"<Tensor {self.name} {self.dtype.name} {dims_text(self.shape)} {self.kind.name}>"


def dims_text(shape: Sequence[int]) -> str:
    """Return a shape as text, such as `2x3`; `scalar` for rank 0."""
    return "x".join(map(str, shape)) or "scalar"


class Scalar(msgspec.Struct, frozen=True):
    """A scalar param."""

    dtype: DType
    value: int | float | bool | str

    @property
    def fits(self) -> bool:
        """True if the type can hold the value, which may be a NumPy number."""
        value: object = self.value
        if self.dtype is DType.STRING:
            return isinstance(value, str)
        if self.dtype is DType.BOOL_8:
            return isinstance(value, bool | np.bool_) or value in (0, 1)
        if self.dtype.is_float:
            if isinstance(value, int | np.integer):
                return abs(int(value)) <= 2**64  # larger ones may overflow a float
            return isinstance(value, float | np.floating)
        low, high = self.dtype.stored_range() if self.dtype.bits else (0, -1)
        return isinstance(value, int | np.integer) and low <= int(value) <= high
