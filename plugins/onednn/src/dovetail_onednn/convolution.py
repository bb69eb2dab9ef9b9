"""Convolution with its bias and what follows it, in float32.

Layouts: the library chooses those of source, filters and result, unless the source is in one of
its layouts already, which is then kept. Where that leaves only the library's slow, generic
implementation, it may choose the source's too; where that does not help, the op is left to its
reference, which is faster. Filters are packed once per context, at finalize.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from dovetail.ir import DType, Shape
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, Value
from dovetail_onednn._api import CONVOLUTION_DIRECT, FORWARD_INFERENCE, Arg
from dovetail_onednn.descriptors import MemoryDesc, array
from dovetail_onednn.handles import engine
from dovetail_onednn.layouts import OneDnnLayout, filters, images, vector
from dovetail_onednn.post_ops import Chain, chain_of
from dovetail_onednn.primitives import Attributes, PostOp, Primitive, PrimitiveDesc, operand
from dovetail_onednn.reorder import pack


@dataclass(frozen=True, slots=True)
class Geometry:
    """A convolution's operands in their dense forms, and its params.

    Attributes:
        source, weights, bias, target: Dense descriptors; no bias is None.
        stride, dilation, before, after: For each spatial axis; dilation 1 is a dense window.
    """

    source: MemoryDesc
    weights: MemoryDesc
    bias: MemoryDesc | None
    target: MemoryDesc
    stride: Shape
    dilation: Shape
    before: Shape
    after: Shape

    def __str__(self) -> str:
        operands = f"source {_by(self.source)}, filters {_by(self.weights)}"
        bias = "" if self.bias is None else f", bias {_by(self.bias)}"
        return (
            f"{operands}{bias}, result {_by(self.target)}, stride {self.stride}, "
            f"dilation {self.dilation}, pads {self.before} and {self.after}"
        )


def conv2d(call: KernelCall) -> Step | None:
    """Runs Conv2d and its tail as one primitive; see `Kernel.make`."""
    return _convolution(call, int(call.op.group))


def depthwise_conv2d(call: KernelCall) -> Step | None:
    """Runs DepthWiseConv2d, which is a convolution of as many groups as channels."""
    return _convolution(call, call.spec(0).shape[3])


def _convolution(call: KernelCall, groups: int) -> Step | None:
    geometry = _geometry(call, groups)
    weights = call.static(1)
    if geometry is None or weights is None:
        return None
    chain = chain_of(call, geometry.target.dims)
    desc = _choose(geometry, chain.ops, call.layout(0))
    if desc is None:
        return None
    with desc:
        places = _declare(call, geometry, chain, desc)
        packed = OneDnnLayout(desc.desc(Arg.WEIGHTS), geometry.weights)
        form = f"{engine().library.fingerprint}/{geometry.weights.key}/{packed.desc.key}"
        made = call.packed(1, form, lambda: pack(weights, packed))
        places[Arg.WEIGHTS] = (packed.desc, call.constant(made, packed))
        primitive = Primitive(desc)
    if primitive.scratchpad.nbytes:
        places[Arg.SCRATCHPAD] = (primitive.scratchpad, call.scratch(primitive.scratchpad.nbytes))
    return call.step(functools.partial(_bind, primitive, places))


def convolution_desc(
    geometry: Geometry,
    post_ops: tuple[PostOp, ...] = (),
    source: MemoryDesc | None = None,
) -> PrimitiveDesc:
    """Describes a convolution.

    Args:
        geometry: Extents and params.
        post_ops: What is done to the result.
        source: Its arrangement; None leaves the choice to the library.

    Raises:
        BackendError: There is no such convolution.
    """
    tail = "".join(f" + {op}" for op in post_ops)
    with Attributes(post_ops) as attributes:
        return PrimitiveDesc(
            "convolution_forward",
            engine(),
            FORWARD_INFERENCE,
            CONVOLUTION_DIRECT,
            source or MemoryDesc.any(geometry.source.dims),
            MemoryDesc.any(geometry.weights.dims),
            geometry.bias,
            MemoryDesc.any(geometry.target.dims),
            array(geometry.stride),
            # the library counts the elements skipped between two of a window
            array([d - 1 for d in geometry.dilation]),
            array(geometry.before),
            array(geometry.after),
            attributes,
            description=f"a float32 convolution{tail}: {geometry}",
        )


Places = dict[int, tuple[MemoryDesc, Value]]


def _geometry(call: KernelCall, groups: int) -> Geometry | None:
    specs = [call.spec(i) for i in range(3) if call.has(i)]
    source, weights = specs[0].shape, specs[1].shape
    target = call.outputs[0].shape
    if any(s.dtype is not DType.FLOAT_32 for s in specs) or 0 in (*source, *weights, *target):
        return None
    op = call.op
    pads = np.asarray(op.pad_amount)
    return Geometry(
        images(source),
        filters(weights, groups),
        vector(weights[3]) if call.has(2) else None,
        images(target),
        _ints(op.stride),
        _ints(op.dilation),
        _ints(pads[:, 0]),
        _ints(pads[:, 1]),
    )


def _choose(geometry: Geometry, ops: tuple[PostOp, ...], layout: object) -> PrimitiveDesc | None:
    """Describes the convolution with the first choice of layouts that is not a slow one."""
    choices = [layout.desc, None] if isinstance(layout, OneDnnLayout) else [None]
    for source in choices:
        desc = convolution_desc(geometry, ops, source=source)
        if not desc.implementation.startswith("ref"):
            return desc
        desc.close()
    return None


def _declare(call: KernelCall, geometry: Geometry, chain: Chain, desc: PrimitiveDesc) -> Places:
    """Declares what the step reads and writes, in the layouts that the primitive wants."""
    source, target = desc.desc(Arg.SOURCE), desc.desc(Arg.DESTINATION)
    places: Places = {Arg.SOURCE: (source, call.read(0, OneDnnLayout.of(source, geometry.source)))}
    if geometry.bias is not None:
        places[Arg.BIAS] = (geometry.bias, call.read(2))
    for position, index in chain.operands:
        other = desc.desc(operand(position))
        value = call.read(index, OneDnnLayout.of(other, geometry.target))
        places[operand(position)] = (other, value)
    layout = OneDnnLayout.of(target, geometry.target)
    places[Arg.DESTINATION] = (target, call.write(0, layout))
    return places


def _bind(primitive: Primitive, places: Places, buffers: Buffers) -> Bound:
    return primitive.bind(
        {arg: (desc, buffers.address(value)) for arg, (desc, value) in places.items()}
    )


def _ints(values: object) -> Shape:
    return tuple(int(v) for v in np.asarray(values).reshape(-1))


def _by(desc: MemoryDesc) -> str:
    return "x".join(map(str, desc.dims))
