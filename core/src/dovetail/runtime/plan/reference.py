"""The step of an op without a kernel, which runs `simulate`."""

from __future__ import annotations

import numpy as np

from dovetail.ir import Array
from dovetail.ops import simulate
from dovetail.runtime.plan.kernel_call import KernelCall
from dovetail.runtime.plan.values import Bound, Buffers, Step


def reference_step(call: KernelCall) -> Step:
    """Return a step that runs a node by its reference, on stored values of any type."""
    view = call.head
    schema, op = view.definition
    reads = [call.read(i) if call.has(i) else None for i in range(len(call.tensors))]
    specs = [None if v is None else v.spec for v in reads]
    writes = [call.write(i) for i in range(len(call.outputs))]

    def bind(buffers: Buffers) -> Bound:
        ins = [None if v is None else _read_only(buffers.array(v)) for v in reads]
        outs = [buffers.array(v) for v in writes]

        def run() -> None:
            results = simulate(schema, op, ins, specs, view.outs)
            for out, result in zip(outs, results, strict=True):
                np.copyto(out, result)

        return run

    return call.step(bind)


def _read_only(array: Array) -> Array:
    """Return a read-only view, for arrays of the application and inputs of other steps."""
    view = array.view()
    view.flags.writeable = False
    return view
