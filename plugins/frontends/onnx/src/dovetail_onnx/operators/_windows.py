"""The windows that the attributes of convolutions and poolings describe."""

from __future__ import annotations

from dovetail.errors import counted
from dovetail.ir import Shape
from dovetail_onnx._context import OpContext
from dovetail_opset.importing.windows import Pairs, Window, same_pads

# Maximum of a kernel's size, dilation or padding: no real model has as much, and engines take long
# to reject it.
_MOST_ALONG_AXIS = 2**20


def window_of(op: OpContext, kernel: Shape, spatial: Shape) -> Window:
    """Return the window that a node's attributes describe.

    Args:
        op: A convolution or pooling.
        kernel: Its sizes, one for each spatial dimension.
        spatial: Spatial shape of the input.

    Raises:
        FrontendError: Attributes do not fit the kernel or are invalid.
    """
    rank = len(spatial)
    if len(kernel) != rank or min(kernel) < 1:
        dimensions = counted(rank, "spatial dimension")
        raise op.invalid(f"kernel {kernel} does not match {dimensions}")
    strides = positive(op, "strides", rank)
    dilations = positive(op, "dilations", rank)
    spans = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    pads = _pads(op, spatial, spans, strides)
    if max(*kernel, *dilations, *(abs(p) for pair in pads for p in pair)) > _MOST_ALONG_AXIS:
        raise op.invalid(
            f"kernel {kernel}, dilations {dilations} and pads {pads} must not exceed "
            f"{_MOST_ALONG_AXIS} along an axis"
        )
    ceil = bool(op.attr.integer("ceil_mode", 0))
    flat = (1,) * (2 - rank)
    unpadded = ((0, 0),) * (2 - rank)
    return Window(flat + kernel, flat + strides, flat + dilations, unpadded + pads, ceil)


def positive(op: OpContext, name: str, rank: int) -> Shape:
    """Return an attribute of one number for each axis, 1 if it is omitted.

    Raises:
        FrontendError: There are more or fewer, or one below 1.
    """
    found = op.attr.integers(name)
    values = found or (1,) * rank
    if len(values) != rank or min(values) < 1:
        raise op.invalid(f"{name} must be {counted(rank, 'positive number')}, got {values}")
    return values


def _pads(op: OpContext, spatial: Shape, spans: Shape, strides: Shape) -> Pairs:
    auto = op.attr.text("auto_pad", "NOTSET")
    given = op.attr.integers("pads")
    rank = len(spatial)
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        return same_pads(spatial, spans, strides, upper=auto == "SAME_UPPER")
    if auto not in ("NOTSET", "VALID"):
        raise op.invalid(
            f"unsupported auto_pad '{auto}'; expected NOTSET, VALID, SAME_UPPER or SAME_LOWER"
        )
    if auto == "VALID" or not given:
        return ((0, 0),) * rank
    if len(given) != 2 * rank:
        raise op.invalid(f"pads must be {2 * rank} numbers, got {given}")
    return tuple(zip(given[:rank], given[rank:], strict=True))
