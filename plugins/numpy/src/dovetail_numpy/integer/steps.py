"""Kernels for quantized nodes that compute by the definition."""

from __future__ import annotations

from functools import partial

import numpy as np

from dovetail.ops.simulate import keeps_stored
from dovetail.runtime.plan import Bound, Buffers, KernelCall, KernelRegistry, Step
from dovetail_numpy.integer.definitions import DEFINITIONS, Definitions
from dovetail_opset import STANDARD


def definition_kernels(definitions: Definitions) -> KernelRegistry:
    """Return kernels that run quantized nodes by their definitions."""
    registry = KernelRegistry("numpy")
    for op_type in definitions:
        kernel = partial(by_definition, definitions)
        registry.register(STANDARD, op_type, quantized=True)(kernel)
    return registry


def by_definition(definitions: Definitions, call: KernelCall) -> Step | None:
    """Run a quantized node by its definition.

    None if it has none, and for moves of stored values, which kernels for real values do as well.
    """
    view = call.head
    definition = definitions.of(view)
    if definition is None or keeps_stored(view.definition[0].domain, view.ins, view.outs):
        return None
    reads = [call.read(i) if call.has(i) else None for i in range(len(view.ins))]
    writes = [call.write(i) for i in range(len(call.outputs))]
    compute = definition.prepare(view)

    def bind(buffers: Buffers) -> Bound:
        ins = [None if value is None else buffers.array(value) for value in reads]
        outs = [buffers.array(value) for value in writes]

        def run() -> None:
            for out, found in zip(outs, compute(ins), strict=True):
                np.copyto(out, found)

        return run

    return call.step(bind)


BY_DEFINITION = definition_kernels(DEFINITIONS)
