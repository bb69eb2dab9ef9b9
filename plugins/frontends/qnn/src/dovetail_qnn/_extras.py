"""Facts of a graph that the files of QNN's converters cannot express, under a key of our own.

A file of QNN's converters has none, and every part can be missing. Only what differs from what the
rest of the file says is written. Source: docs/qnn_formats.md, "The key `dovetail`".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from dovetail.container.entries import (
    ArrayReader,
    Dims,
    EncodingEntry,
    load_encoding,
)
from dovetail.errors import FrontendError
from dovetail.ir import Encoding, MemoryType
from dovetail.typed import convert

KEY = "dovetail"
MAX_RANK = 64

Marks = Annotated[tuple[bool, ...], Meta(max_length=MAX_RANK)]


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of all parts."""


class TensorExtras(_Part, frozen=True):
    """Facts of a tensor that the file does not state.

    Attributes:
        name: Its name in the graph.
        source, source_perm, dynamic, memory_type: As in `dovetail.ir.Tensor`.
        encoding: Its encoding, of a kind whose form in the file is not known.
    """

    name: str | None = None
    source: str | None = None
    source_perm: Dims | UnsetType | None = UNSET
    dynamic: Marks = ()
    memory_type: MemoryType = MemoryType.RAW
    encoding: EncodingEntry | None = None


class NodeExtras(_Part, frozen=True):
    """Facts of a node that the file does not state.

    Attributes:
        name: Its name in the graph.
        sources: As in `dovetail.ir.Node`.
        inputs: Number of inputs, if omitted ones come last.
        params: Those of tensors, by the name of the param.
    """

    name: str | None = None
    sources: tuple[str, ...] | None = None
    inputs: Annotated[int, Meta(ge=0, lt=2**16)] | None = None
    params: Mapping[str, TensorExtras] = {}


class GridExtras(_Part, frozen=True):
    """An item of `Graph.source_encodings`."""

    dtype: int
    shape: Dims
    encoding: EncodingEntry | None = None


class Extras(_Part, frozen=True):
    """Facts of a graph that the file does not state.

    Attributes:
        version: Version of this form.
        graph: Name of the graph.
        tensors, nodes: By their names in the file.
        grids, removed_sources: As in `dovetail.ir.Graph`.
        order: Tensors by their names in the file, if they are in another order there.
    """

    version: Literal[1] = 1
    graph: str | None = None
    tensors: Mapping[str, TensorExtras] = {}
    nodes: Mapping[str, NodeExtras] = {}
    grids: Mapping[str, GridExtras] = {}
    removed_sources: tuple[str, ...] = ()
    order: tuple[str, ...] = ()


NOTHING = Extras()
NO_TENSOR = TensorExtras()
NO_NODE = NodeExtras()


def read_extras(data: object, where: str) -> Extras:
    """Return decoded extras.

    Raises:
        FrontendError: They have unknown keys or wrong values.
    """
    return convert(data, Extras, where=where, path=f"$.{KEY}", error=FrontendError)


def read_entry(entry: EncodingEntry, where: str) -> Encoding:
    """Return the encoding of an entry.

    Raises:
        ContainerError: Its arrays do not match.
    """
    return load_encoding(entry, ArrayReader((), where))
