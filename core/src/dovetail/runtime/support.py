"""Verdicts on nodes: the tensors by a backend's capabilities, then the op by the backend."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from dovetail.ir import DataFormat, EncodingKind, MemoryType, Tensor
from dovetail.ir.text import shape_texts
from dovetail.ops import NodeView
from dovetail.runtime.contract import SUPPORTED, Backend, Capabilities, Support


def verdict(
    backend: Backend, capabilities: Capabilities, view: NodeView, device: Any, config: Any
) -> Support:
    """Return whether a backend supports a node, with the reason if not.

    Args:
        backend: The backend.
        capabilities: Its capabilities.
        view: The node.
        device: Settings of the device.
        config: Settings of the graph.
    """
    for tensor in _tensors_of(view):
        if not (support := _tensor_support(tensor, capabilities)).ok:
            return support
    return backend.validate(view, device, config)


def _tensors_of(view: NodeView) -> Iterator[Tensor]:
    node = view.node
    yield from (t for t in node.inputs if t is not None)
    yield from node.outputs
    yield from (p for p in node.params.values() if isinstance(p, Tensor))


def _tensor_support(tensor: Tensor, able: Capabilities) -> Support:
    """Return whether capabilities admit a tensor, whatever the op does with it."""
    where = f"tensor '{tensor.name}'"
    if tensor.dynamic and not able.dynamic_dimensions:
        found = f"[{', '.join(shape_texts(tensor.shape, tensor.dynamic))}]"
        hint = "give every axis a size"
        return Support(False, "dynamic-dimensions", f"{where}.shape", found, rewrite=hint)
    if tensor.data_format not in able.data_formats:
        allowed = _names(able.data_formats)
        return Support(
            False, "data-format", f"{where}.data_format", tensor.data_format.name, allowed
        )
    if not _is_memory_supported(tensor.memory_type, able):
        allowed = ("RAW", "MEMHANDLE") if able.memory_handles else ("RAW",)
        return Support(
            False, "memory-type", f"{where}.memory_type", tensor.memory_type.name, allowed
        )
    most = able.max_tensor_bytes
    if most is not None and (nbytes := tensor.spec.nbytes) > most:
        return Support(False, "size", where, f"{nbytes} bytes", (f"at most {most} bytes",))
    encoding = tensor.encoding
    if encoding is not None and encoding.kind not in able.encodings:
        found, allowed = encoding.kind.name, _names(able.encodings)
        return Support(False, "encoding", f"{where}.encoding", found, allowed)
    return SUPPORTED


def _is_memory_supported(memory: MemoryType, able: Capabilities) -> bool:
    if memory is MemoryType.RAW:
        return True
    return memory is MemoryType.MEMHANDLE and able.memory_handles


def _names(allowed: Collection[DataFormat | EncodingKind]) -> tuple[str, ...]:
    return tuple(member.name for member in sorted(allowed))
