"""Verdicts on nodes: whether a kernel of the device runs them, and else which rule they break.

A kernel decides: it declines before it declares what it reads and writes, so a trial call that
ends at the first declaration says whether it would run a node. The table of types states the
alternatives to what it declines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

from dovetail.container import WeightStore
from dovetail.ir import Array, DType, Node, Spec, Tensor
from dovetail.ir.text import encoding_text
from dovetail.ops import NodeView
from dovetail.runtime.contract import SUPPORTED, Support
from dovetail.runtime.plan import Kernel, kernel_call
from dovetail_gpu.driver import Device
from dovetail_gpu.elements import STORED
from dovetail_gpu.layouts import element_of, is_encoded, is_stored
from dovetail_gpu.types import type_rows
from dovetail_opset import STANDARD
from dovetail_opset.type_tables import Types
from dovetail_opset.type_verdicts import foreign_types

MOST_ELEMENTS = 2**31 - 1  # kernels count in 32 bits
_ELSEWHERE = "run the node on another backend: --backend hetero:gpu,cpu"


def verdict(view: NodeView, kernel: Kernel | None, device: Device, backend: str) -> Support:
    """Return whether a node runs, with the reason if not.

    It is called while the graph's settings are the current ones.

    Args:
        view: The node.
        kernel: The kernel of its op, or None.
        device: The device.
        backend: Name of the backend, for op packages.
    """
    if kernel is None:
        return _without_kernel(view, backend)
    return _unstorable(view, device) or _declined(view, kernel) or SUPPORTED


def _without_kernel(view: NodeView, backend: str) -> Support:
    if view.package == STANDARD:
        found = f"{view.op_type}, which has no OpenCL kernel"
        return Support(False, "op", "op", found, rewrite=_ELSEWHERE)
    hint = f"add the entry point '{backend}:{view.package}' in the group 'dovetail.kernels'"
    found = f"{view.package}::{view.op_type}, for which its op package has no OpenCL kernel"
    return Support(False, "kernel", "op", found, rewrite=f"{hint}, or {_ELSEWHERE}")


def _unstorable(view: NodeView, device: Device) -> Support | None:
    """Return the verdict on a tensor that the device cannot store, or None."""
    for field, spec in view.named_specs():
        if spec.encoding is not None and not spec.encoding.is_convertible:
            found = encoding_text(spec.encoding)
            hint = f"quantize the tensor with scales and offsets, or {_ELSEWHERE}"
            return Support(False, "encoding", f"{field}.encoding", found, rewrite=hint)
        if not is_stored(spec):
            allowed = tuple(dtype.name for dtype in STORED)
            hint = f"convert the tensor, or {_ELSEWHERE}"
            return Support(False, "dtype", f"{field}.dtype", spec.dtype.name, allowed, hint)
        count = math.prod(spec.shape)
        most = min(MOST_ELEMENTS, device.max_bytes // element_of(spec).nbytes)
        if count > most:
            allowed = (f"at most {most} elements on {device}",)
            hint = f"use a smaller batch or precision_mode fp16, or {_ELSEWHERE}"
            return Support(False, "size", f"{field}.shape", f"{count} elements", allowed, hint)
    return None


def _declined(view: NodeView, kernel: Kernel) -> Support | None:
    """Return the verdict on a node that its kernel declines, or None."""
    try:
        for make in kernel.makes:
            if make(kernel_call(_Trial(), view, [])) is not None:
                return None
    except _Declared:
        return None
    rows = type_rows().get(view.op_type, ()) if view.package == STANDARD else ()
    if rows and all(row.mismatches(view, _is_real_on_device) for row in rows):
        return foreign_types(view, rows, _is_real_on_device)
    types = " ".join(f"{field} {spec.dtype.name}{spec.shape}" for field, spec in view.named_specs())
    found = f"{view.op_type} with {types}, which no kernel supports"
    return Support(False, "kernel", "op", found, rewrite=_ELSEWHERE)


def _is_real_on_device(spec: Spec, types: Types) -> bool:
    """Return whether a tensor is stored as real numbers, for a port that takes these."""
    return is_encoded(spec) and DType.FLOAT_32 in types


class _Declared(Exception):  # noqa: N818 - ends a trial, and is no error
    """A kernel declares something: it supports the call."""


class _Trial:
    """The `Scope` of a trial: the first declaration ends it."""

    options: Any = None

    @property
    def weights(self) -> WeightStore:
        """See `Scope`."""
        raise _Declared

    def layout(self, tensor: Tensor) -> None:
        """Return None: nothing is stored on the device yet; see `Scope`."""

    def read(self, *_: object) -> NoReturn:
        """See `Scope`."""
        raise _Declared

    write = views = packed = constant = scratch = read

    def readers(self, tensor: Tensor) -> Sequence[Node]:
        """Return no nodes: the node is alone; see `Scope`."""
        return ()

    def writer(self, tensor: Tensor) -> None:
        """Return None: the node is alone; see `Scope`."""

    def stored(self, tensor: Tensor) -> Array:
        """Return the stored elements of a static tensor; see `Scope`."""
        return tensor.stored()
