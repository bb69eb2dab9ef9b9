"""Updates of tensors: other data or encodings, which the next `finalize` of a graph applies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import msgspec
from msgspec.structs import replace

from dovetail import ir
from dovetail.errors import GraphError, Problem
from dovetail.ir import Array, Blob, Encoding
from dovetail.ir.check import value_faults
from dovetail.runtime.tensor import owned_blob

_CODE = "TENSOR_ERROR_INCOMPATIBLE_TENSOR_UPDATE"


class Update(msgspec.Struct, frozen=True):
    """The data and the encoding that a tensor gets."""

    data: Blob | None
    encoding: Encoding | None


def checked_update(
    tensor: ir.Tensor, data: Blob | Array | None, encoding: Encoding | None, pending: Update | None
) -> Update:
    """Return the update of a tensor.

    Args:
        tensor: The tensor.
        data: Stored bytes as a blob, or logical values as an array; None to keep its data.
        encoding: Its new encoding; None to keep it.
        pending: An earlier update that has not been applied.

    Raises:
        GraphError: The tensor is not UPDATEABLE, or the update does not match it; every reason is
            listed.
    """
    where = f"tensor '{tensor.name}'"
    if not tensor.kind.is_updateable:
        raise GraphError(
            f"a tensor of the kind {tensor.kind.name} cannot be updated",
            code=_CODE,
            where=where,
            hint="create it with an UPDATEABLE kind",
        )
    faults = []
    if data is None and encoding is None:
        faults.append("the update has neither data nor an encoding")
    if data is not None and not isinstance(data, Blob) and data.shape != tensor.shape:
        faults.append(f"expected data of shape {tensor.shape}, got {data.shape}")
        data = None
    if encoding is not None and tensor.encoding is None:
        faults.append("the tensor has no encoding that could be replaced")
    update = pending or Update(tensor.data, tensor.encoding)
    if data is not None:
        update = replace(update, data=owned_blob(data, tensor.dtype))
    if encoding is not None:
        update = replace(update, encoding=encoding)
    updated = ir.copy_tensor(tensor)
    assign({updated: update})
    faults += value_faults(updated)
    if faults:
        raise GraphError(
            "the update does not match the tensor",
            code=_CODE,
            where=where,
            problems=[Problem(text) for text in faults],
        )
    return update


def section_faults(
    tensors: Iterable[ir.Tensor], known: Mapping[str, ir.Tensor]
) -> Iterator[Problem]:
    """Yield every reason why tensors of a section do not match those of its graph.

    Args:
        tensors: The tensors of the section.
        known: The updateable tensors of the graph by name.
    """
    for tensor in tensors:
        where, own = f"tensor '{tensor.name}'", known.get(tensor.name)
        if own is None:
            yield Problem("the graph has no such updateable tensor", where)
        elif (tensor.kind, tensor.dtype, tensor.shape) != (own.kind, own.dtype, own.shape):
            yield Problem("has another kind, type or shape", where)
        else:
            yield from (Problem(text, where) for text in value_faults(tensor))


@contextmanager
def applied(updates: Mapping[ir.Tensor, Update]) -> Iterator[None]:
    """Apply updates to the tensors of a graph; undo them if an error occurs inside."""
    before = {tensor: Update(tensor.data, tensor.encoding) for tensor in updates}
    try:
        assign(updates)
        yield
    except BaseException:
        assign(before)
        raise


def assign(updates: Mapping[ir.Tensor, Update]) -> None:
    """Assign data and encodings to tensors."""
    for tensor, update in updates.items():
        tensor.data, tensor.encoding = update.data, update.encoding
