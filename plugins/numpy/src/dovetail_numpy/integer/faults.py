"""Faults of quantized nodes: what makes their integers wrong, or their result undefined."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dovetail.ir import Array, Encoding, Spec, Tensor
from dovetail.ops import NodeView
from dovetail.ops.simulate import is_left_open


@dataclass(frozen=True, slots=True)
class Fault:
    """One reason why a node cannot be computed on integers.

    Attributes:
        rule: "encoding", "scale", "offset", "width", "multiplier" or "accumulator".
        field: The tensor, as `in[1]`, or `in[1].encoding`.
        found: What it has.
        allowed: What it may have.
    """

    rule: str
    field: str
    found: str
    allowed: str


def tensor_faults(view: NodeView) -> Iterator[Fault]:
    """Yield the faults of the fixed-point tensors of a node, each seen alone."""
    for field, tensor, spec in _tensors(view):
        if not spec.dtype.is_fixed_point:
            continue
        if spec.encoding is None:
            if spec.dtype.bits < 32:  # the scale of a 32-bit bias is that of the products
                yield Fault("encoding", f"{field}.encoding", "none", "scale and offset")
            continue
        texts = spec.encoding.faults(spec.shape, spec.dtype)
        yield from (Fault("encoding", f"{field}.encoding", t, "no fault") for t in texts)
        if not texts and spec.encoding.is_convertible:
            yield from _scale_faults(field, spec, spec.encoding)
            yield from _width_faults(field, tensor, spec)


def constant(tensor: Tensor | None) -> Array | None:
    """Return the stored values of a tensor that never change; None for other tensors."""
    if tensor is None or tensor.data is None or not tensor.kind.is_static:
        return None
    return None if tensor.kind.is_updateable else tensor.stored()


def _tensors(view: NodeView) -> Iterator[tuple[str, Tensor, Spec]]:
    node = view.node
    for name, tensors, specs in (("in", node.inputs, view.ins), ("out", node.outputs, view.outs)):
        for i, (tensor, spec) in enumerate(zip(tensors, specs, strict=False)):
            if tensor is not None and spec is not None:
                yield f"{name}[{i}]", tensor, spec


def _scale_faults(field: str, spec: Spec, encoding: Encoding) -> Iterator[Fault]:
    scales, offsets = encoding.scales_and_offsets(spec.shape)
    if not scales.all() and not is_left_open(spec):
        count = "" if scales.size == 1 else f" ({np.count_nonzero(scales == 0)} of them)"
        yield Fault("scale", f"{field}.encoding", f"a scale of 0{count}", "scales above 0")
    low, high = spec.dtype.stored_range(encoding.bitwidth)
    wrong = offsets[(offsets < -high) | (offsets > -low)]
    if wrong.size:
        name = spec.dtype.name
        yield Fault("offset", f"{field}.encoding", f"{wrong[0]}", f"{-high} to {-low} for {name}")


def _width_faults(field: str, tensor: Tensor, spec: Spec) -> Iterator[Fault]:
    stored = constant(tensor)
    if stored is None or spec.encoding is None or not stored.size:
        return
    low, high = spec.dtype.stored_range(spec.encoding.bitwidth)
    if stored.min() < low or stored.max() > high:
        bits = spec.encoding.bitwidth or spec.dtype.bits
        found = f"stored integers {stored.min()} to {stored.max()}"
        yield Fault("width", field, found, f"{low} to {high}, which {bits} bits hold")
