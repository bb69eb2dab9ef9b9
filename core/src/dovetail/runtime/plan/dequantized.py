"""The step of an op on encoded tensors, by its float kernel between dequantizing and quantizing.

Results equal those of `simulate`, except for the order in which the backend's float kernel sums.
Static inputs are dequantized once, when the step is created.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from types import MappingProxyType

import numpy as np

from dovetail.container import MakeForm, Packed
from dovetail.ir import Array, DType, Graph, Node, Spec, Tensor, TensorKind, dequantize, quantize
from dovetail.ops import CheckedGraph, NodeView, from_real, matched_node, to_real
from dovetail.ops.simulate import keeps_stored, real_specs
from dovetail.runtime.plan.arena import ArenaBuffers, plan_arena
from dovetail.runtime.plan.binds import call_sequence, no_op
from dovetail.runtime.plan.kernel_call import KernelCall
from dovetail.runtime.plan.slots import Slot
from dovetail.runtime.plan.values import Bound, Buffers, Step, Value

PackForm = Callable[[Sequence[Tensor | None], str, MakeForm], Packed | Slot]

_HALVES = (DType.FLOAT_16, DType.BFLOAT_16)


def float_graph(view: NodeView, packed: PackForm) -> CheckedGraph | None:
    """Return a graph of one node on real values, as `simulate` computes it.

    Inputs are named `in0`, `in1`, ..., outputs `out0`, ...; static inputs have their real values.

    Args:
        view: The node.
        packed: Returns a form of static tensors; see `KernelCall.packed`.

    Returns:
        The graph; None if no tensor of the node is fixed-point with an encoding, if the node works
        on stored values, or if its op does not support real values.
    """
    if not view.is_quantized:
        return None
    schema, _ = view.definition
    if keeps_stored(schema.domain, view.ins, view.outs):
        return None
    specs = real_specs(schema.op, view.ins)
    real_values = {
        i: packed([tensor], "real", _real).data
        if spec == tensor.spec
        else to_real(tensor.stored(), spec)
        for i, (tensor, spec) in enumerate(zip(view.node.inputs, specs, strict=False))
        if tensor is not None
        and spec is not None
        and tensor.data is not None
        and not tensor.kind.is_updateable
        and _needs_conversion(spec)
    }
    graph = real_graph(view.node, real_values, specs)
    (node,) = graph.nodes
    real, _ = matched_node(node, schema)
    return None if real is None else CheckedGraph.of(graph, {node: real})


def _real(arrays: Sequence[Array | None], specs: Sequence[Spec | None]) -> Array:
    """Return the real values of an input: the form of dequantized constants."""
    if arrays[0] is None or specs[0] is None:
        raise AssertionError("an omitted input is dequantized")
    return to_real(arrays[0], specs[0])


def real_graph(
    node: Node,
    fixed: Mapping[int, Array] = MappingProxyType({}),
    specs: Sequence[Spec | None] = (),
) -> Graph:
    """Return a graph of one node on real values, named as by `float_graph`.

    Args:
        node: The node; static inputs have their real values.
        fixed: Other real values of inputs, by index; these are static, too.
        specs: Specs by which its inputs are dequantized; by default their own.
    """
    graph = Graph("real")
    inputs = [
        None if t is None else graph.add_tensor(_input(t, f"in{i}", spec or t.spec, fixed.get(i)))
        for i, (t, spec) in enumerate(zip_longest(node.inputs, specs[: len(node.inputs)]))
    ]
    outputs = [
        graph.add_tensor(Tensor(f"out{i}", _real_type(t.spec), t.shape, TensorKind.APP_READ))
        for i, t in enumerate(node.outputs)
    ]
    graph.add_node(node.with_tensors(inputs, outputs))
    return graph


def dequantized_step(
    call: KernelCall,
    inner: Sequence[Step],
    inputs: dict[str, Value],
    outputs: dict[str, Value],
) -> Step:
    """Return the step that runs the plan of a node's float graph.

    Args:
        call: The call of the node.
        inner: The steps of the plan.
        inputs: Its inputs, named as by `float_graph`.
        outputs: Its outputs by name.
    """
    arena = plan_arena(inner)
    block = call.scratch(arena.nbytes)
    schema, _ = call.head.definition
    reads = [
        (call.read(i), spec, end, _room(call, end.spec, spec))
        for i, spec in enumerate(real_specs(schema.op, call.head.ins))
        if spec is not None and call.has(i) and (end := inputs.get(f"in{i}")) is not None
    ]
    writes = [
        (call.write(i), t.spec, end, _room(call, end.spec, t.spec))
        for i, t in enumerate(call.outputs)
        if (end := outputs[f"out{i}"])
    ]

    def bind(buffers: Buffers) -> Bound:
        within = ArenaBuffers(arena, buffers.array(block))
        before = list(_bound(buffers, within, reads, _to_real))
        after = list(_bound(buffers, within, writes, _from_real))
        steps = [step.bind(within) for step in inner]
        return call_sequence((*before, *(c for c in steps if c is not no_op), *after))

    return call.step(bind)


def _bound(
    buffers: Buffers,
    within: ArenaBuffers,
    places: Sequence[tuple[Value, Spec, Value, Value | None]],
    convert: Callable[[Array, Spec, Array], None],
) -> Iterator[Bound]:
    """Assign arrays to a plan's inputs or outputs, and yield the calls that convert them."""
    for value, spec, end, room in places:
        stored = buffers.array(value)
        if room is None:
            within.application[end] = stored
            continue
        real = buffers.array(room).view(np.float32).reshape(value.spec.shape)
        within.application[end] = real
        yield partial(convert, stored, spec, real)


def _to_real(stored: Array, spec: Spec, real: Array) -> None:
    if spec.dtype.is_fixed_point and spec.encoding is not None:
        dequantize(stored, spec.encoding, real)
    else:
        np.copyto(real, to_real(stored, spec))


def _from_real(stored: Array, spec: Spec, real: Array) -> None:
    if spec.dtype.is_fixed_point and spec.encoding is not None:
        quantize(real, spec.encoding, spec.dtype, stored)
    else:
        np.copyto(stored, from_real(real, spec))


def _room(call: KernelCall, inner: Spec, outer: Spec) -> Value | None:
    """Declare scratchpads for real values that differ from the stored ones."""
    if not _needs_conversion(outer):
        return None
    return call.scratch(math.prod(inner.shape) * inner.dtype.storage.itemsize)


def _input(tensor: Tensor, name: str, spec: Spec, values: Array | None) -> Tensor:
    if values is not None:
        dtype = _real_type(spec)
        return Tensor.static(name, np.asarray(values, dtype.storage), dtype)
    if tensor.kind is TensorKind.NULL:
        return Tensor(name, tensor.dtype, tensor.shape, TensorKind.NULL)
    if tensor.data is not None and not tensor.kind.is_updateable:
        if not _needs_conversion(spec):
            return Tensor(name, tensor.dtype, tensor.shape, TensorKind.STATIC, data=tensor.data)
        return Tensor.static(name, to_real(tensor.stored(), spec))
    return Tensor(name, _real_type(spec), tensor.shape, TensorKind.APP_WRITE)


def _needs_conversion(spec: Spec) -> bool:
    """Return whether a tensor's stored elements are not its real values."""
    return spec.dtype in _HALVES or (spec.dtype.is_fixed_point and spec.encoding is not None)


def _real_type(spec: Spec) -> DType:
    return DType.FLOAT_32 if _needs_conversion(spec) else spec.dtype
