"""Minor versions of the format: the keys and encodings that version 1 has gained.

A file states the first minor version that has all it uses, and the names of those additions that a
reader must know (`requires`). Of a newer minor version a reader ignores unknown keys.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec

from dovetail.container._manifest import EncodingEntry, GraphEntry, TensorEntry
from dovetail.errors import ContainerError

MINOR = 3


class _Addition(msgspec.Struct, frozen=True):
    """A key or an encoding that the format has gained.

    Attributes:
        minor: The minor version that has it.
        is_required: Whether a file has another meaning without it.
    """

    minor: int
    is_required: bool


_ADDITIONS = {
    "dynamic": _Addition(1, is_required=True),
    "memory_type": _Addition(1, is_required=False),
    "data_format": _Addition(1, is_required=True),
    "float_block": _Addition(1, is_required=True),
    "mapped": _Addition(1, is_required=True),
    "vector": _Addition(1, is_required=True),
    "open_grid": _Addition(2, is_required=True),
    "device": _Addition(3, is_required=False),
}
_KEYS = tuple(name for name in _ADDITIONS if name in TensorEntry.__struct_fields__)


def version_of(
    graphs: Iterable[GraphEntry], tensors: Iterable[TensorEntry] = (), others: Iterable[str] = ()
) -> tuple[int, tuple[str, ...]]:
    """Return the minor version that has all that a file uses, and the additions to require.

    Args:
        graphs: The graphs in the file.
        tensors: Its other tensors.
        others: Further additions that it uses.
    """
    used = {*others, *(name for graph in graphs for name in _used(graph))}
    used |= {name for tensor in tensors for name in _used_tensor(tensor)}
    minor = max((_ADDITIONS[name].minor for name in used), default=0)
    return minor, tuple(sorted(name for name in used if _ADDITIONS[name].is_required))


def check_requirements(requires: Collection[str], where: str) -> None:
    """Raise if a file requires additions that this core does not have.

    Raises:
        ContainerError: It does; all are listed.
    """
    if missing := sorted(set(requires) - _ADDITIONS.keys()):
        names = ", ".join(f"'{name}'" for name in missing)
        raise ContainerError(
            f"the file requires {names}, which this core does not have; it reads format 1.{MINOR}",
            code="CONTAINER_VERSION",
            where=where,
            hint="upgrade dovetail-core, or write the file again with this version",
        )


def _used(graph: GraphEntry) -> Iterator[str]:
    """Yield the additions that a graph uses."""
    params = (p.tensor for node in graph.nodes for p in node.params if p.tensor is not None)
    for tensor in (*graph.tensors, *params):
        yield from _used_tensor(tensor)
    for grid in graph.grids:
        if grid.encoding is None:
            yield "open_grid"
        else:
            yield from _used_encoding(grid.encoding)


def _used_tensor(tensor: TensorEntry) -> Iterator[str]:
    # writers omit default values, so these keys are absent
    yield from (key for key in _KEYS if getattr(tensor, key))
    if tensor.encoding is not None:
        yield from _used_encoding(tensor.encoding)


def _used_encoding(entry: EncodingEntry) -> Iterator[str]:
    tag = entry.__struct_config__.tag
    if isinstance(tag, str) and tag in _ADDITIONS:
        yield tag
