"""The manifest: Structs and their JSON form.

Field names are those of the format (docs/container.md). Tensors and blobs are referred to by index.
"""

# Annotations stay types: msgspec would compile texts at each start of a process (ADR 39).

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from dovetail.container.producer import Producer, Sha256
from dovetail.errors import ContainerError
from dovetail.ir import DataFormat, DType, EncodingMapping, MemoryType, TensorKind

MAX_RANK = 64  # NumPy's limit

Index = Annotated[int, Meta(ge=0, lt=2**32)]
Size = Annotated[int, Meta(ge=0, le=2**63 - 1)]
# QNN's 32 bits, with room for the zero point of an unsigned 32-bit type.
Offset = Annotated[int, Meta(ge=-(2**32), le=2**32)]
Bits = Annotated[int, Meta(ge=1, le=64)]
Dims = Annotated[tuple[Size, ...], Meta(max_length=MAX_RANK)]


class ManifestError(ContainerError):
    """An undamaged manifest with impossible content."""

    default_code = "CONTAINER_INVALID"


class _Strict(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False
):
    """Base of all parts of a manifest, which are many; what is decoded has no cycles."""


class BlobEntry(_Strict, frozen=True):
    """A blob: identity, size, and a CRC-32 for each chunk."""

    sha256: Sha256
    size: Size
    crc32: tuple[Index, ...]


class ArrayEntry(_Strict, frozen=True):
    """An array of an encoding: small ones inline, others in a blob."""

    dtype: DType
    shape: Dims
    values: tuple[int | float, ...] | None = None
    blob: Index | None = None


class ScaleOffsetEntry(_Strict, frozen=True, tag_field="encoding", tag="scale_offset"):
    """A `ScaleOffset`."""

    scale: float
    offset: Offset = 0
    bitwidth: Bits | None = None


class AxisEntry(_Strict, frozen=True, tag_field="encoding", tag="axis_scale_offset"):
    """An `AxisScaleOffset`."""

    axis: Index
    scales: ArrayEntry
    offsets: ArrayEntry | None = None
    bitwidth: Bits | None = None


class BlockEntry(_Strict, frozen=True, tag_field="encoding", tag="block"):
    """A `Block`."""

    block_size: Dims
    scales: ArrayEntry
    offsets: ArrayEntry | None = None
    bitwidth: Bits | None = None


class ExpansionEntry(_Strict, frozen=True, tag_field="encoding", tag="blockwise_expansion"):
    """A `BlockwiseExpansion`."""

    axis: Index
    scales: ArrayEntry
    block_scales: ArrayEntry
    block_scale_bitwidth: Annotated[int, Meta(ge=1, le=16)]
    offsets: ArrayEntry | None = None
    bitwidth: Bits | None = None


class FloatBlockEntry(_Strict, frozen=True, tag_field="encoding", tag="float_block"):
    """A `FloatBlock`."""

    block_size: Dims
    scales: ArrayEntry
    offsets: ArrayEntry
    bitwidth: Bits | None = None


class MappedEntry(_Strict, frozen=True, tag_field="encoding", tag="mapped"):
    """A `Mapped`."""

    base: AxisEntry | BlockEntry | ExpansionEntry
    mapping: EncodingMapping


class VectorEntry(_Strict, frozen=True, tag_field="encoding", tag="vector"):
    """A `Vector`."""

    base: AxisEntry
    rows_per_block: Index
    columns_per_block: Index
    vector_dimension: Index
    vector_stride: Index
    index_bitwidth: Bits


EncodingEntry = (
    ScaleOffsetEntry
    | AxisEntry
    | BlockEntry
    | ExpansionEntry
    | FloatBlockEntry
    | MappedEntry
    | VectorEntry
)


class TensorEntry(_Strict, frozen=True):
    """A `Tensor`; `source` is left out if it equals the name."""

    name: str
    dtype: DType
    shape: Dims
    kind: TensorKind
    encoding: EncodingEntry | None = None
    data: Index | None = None
    source: str | None = None
    source_perm: Dims | None = None
    dynamic: Annotated[tuple[bool, ...], Meta(max_length=MAX_RANK)] = ()
    memory_type: MemoryType = MemoryType.RAW
    data_format: DataFormat = DataFormat.DENSE


class ScalarEntry(_Strict, frozen=True):
    """A `Scalar`; infinities and NaN are text, since JSON has no such numbers."""

    dtype: DType
    value: bool | int | float | str


class ParamEntry(_Strict, frozen=True):
    """A param of a node: exactly one of `scalar` and `tensor`."""

    name: str
    scalar: ScalarEntry | None = None
    tensor: TensorEntry | None = None


class NodeEntry(_Strict, frozen=True):
    """A `Node`; tensors by their index in the graph; `sources` is left out if it is the name."""

    name: str
    package: str
    op_type: str
    inputs: tuple[Index | None, ...]
    outputs: tuple[Index, ...]
    params: tuple[ParamEntry, ...] = ()
    sources: tuple[str, ...] | None = None


class GridEntry(_Strict, frozen=True):
    """An item of `Graph.source_encodings`: what is known of the encoding of a float tensor."""

    source: str
    dtype: DType
    shape: Dims
    encoding: EncodingEntry | None = None


class GraphEntry(_Strict, frozen=True):
    """A `Graph`: tensors in their order, nodes in topological order."""

    name: str
    tensors: tuple[TensorEntry, ...]
    nodes: tuple[NodeEntry, ...]
    grids: tuple[GridEntry, ...] = ()
    gone: tuple[str, ...] = ()


class PreparedEntry(_Strict, frozen=True):
    """A prepared graph in a context binary or section; see `StoredContextGraph`.

    `plan` and `model` are blobs of JSON.
    """

    name: str
    inputs: tuple[TensorEntry, ...] = ()
    outputs: tuple[TensorEntry, ...] = ()
    shared: tuple[str, ...] = ()
    plan: Index | None = None
    model: Index | None = None
    digest: Annotated[str, Meta(max_length=64)] = ""
    config: dict[str, Any] = {}
    observed: tuple[str, ...] = ()
    all_observed: bool = False
    added_outputs: tuple[str, ...] = ()
    updated: tuple[TensorEntry, ...] = ()
    memory_bytes: Size = 0


class _Versioned(_Strict, frozen=True, kw_only=True):
    """Fields with which the manifests of all kinds end: see `dovetail.container._versions`."""

    minor: Index = 0
    requires: tuple[str, ...] = ()


class Manifest(_Versioned, frozen=True):
    """Fields with which the manifests of all kinds begin."""

    blobs: tuple[BlobEntry, ...]


class ModelManifest(Manifest, frozen=True):
    """The manifest of a model."""

    producer: Producer
    op_packages: dict[str, str]
    graphs: tuple[GraphEntry, ...]


def encode_manifest(manifest: Manifest) -> bytes:
    """Return a manifest as JSON; equal manifests produce equal bytes.

    Raises:
        ContainerError: A name is not valid Unicode text.
    """
    try:
        return msgspec.json.encode(manifest, order="deterministic")
    except UnicodeEncodeError as error:
        raise ManifestError(
            f"a name cannot be written as UTF-8: {error.object!r}", hint="rename it"
        ) from error
