"""The kernel for the backend `gpu`: OpenCL C of this package, `snake.cl`.

On the device real numbers are float or half, whatever the graph stores: that kernel also runs
quantized tensors, whose real values the backend computes.
"""

from __future__ import annotations

import math
from importlib.resources import files

from dovetail.ir import Shape
from dovetail.runtime.plan import KernelCall, KernelRegistry, Step
from dovetail_gpu import Argument, Element, Source, element_of, launch, read, type_lines, write

KERNELS = KernelRegistry("gpu")
_GROUP = 64


@KERNELS.register("audio.snake", "Snake")
def snake(call: KernelCall) -> Step | None:
    """Create the step of a Snake node; None if alpha varies along axes that are not neighbors."""
    spec = call.spec(0)
    inner = _inner(spec.shape, call.spec(1).shape)
    if inner is None:
        return None
    element = element_of(call.outputs[0].spec)
    x, alpha, y = read(call, 0, element), read(call, 1, Element.FLOAT), write(call)
    text = files("snake_ops").joinpath("snake.cl").read_text("utf-8")
    source = Source.from_text(text, lines=type_lines(element))
    count, channels = math.prod(spec.shape), math.prod(call.spec(1).shape)
    arguments: list[Argument] = [x, alpha, y, count, max(inner, 1), max(channels, 1)]
    return launch(call, source, "snake", arguments, (count,), (_GROUP,))


def _inner(shape: Shape, alpha: Shape) -> int | None:
    """Return how many neighboring elements share one alpha; None if no such number exists."""
    aligned = (1,) * (len(shape) - len(alpha)) + tuple(alpha)
    axes = [i for i, size in enumerate(aligned) if size != 1]
    if not axes:
        return 1
    first, last = axes[0], axes[-1] + 1
    return math.prod(shape[last:]) if aligned[first:last] == shape[first:last] else None
