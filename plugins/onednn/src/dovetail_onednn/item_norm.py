"""Normalizations of each item of a batch over its positions: of channels, or of groups of them.

The library's batch normalization returns means and variances by channel. Those of groups follow
from them; a product and a sum per channel then give the result the scale of its group. With
few channels the library is up to 20 times slower than its memory is. So adjacent positions are then
taken as channels of their own, whose means and variances are combined as well.
"""

# Annotations stay types: msgspec would compile texts at each start of a process (ADR 39).

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dovetail.ir import Shape
from dovetail.ops import NodeView
from dovetail.runtime.plan import (
    Bind,
    Bound,
    Buffers,
    Data,
    KernelCall,
    PlanRecorder,
    RecipeError,
    Source,
    Step,
    Storage,
    Value,
    call_sequence,
)
from dovetail_numpy.kernels.conditions import is_float32
from dovetail_onednn._api import (
    FORWARD_INFERENCE,
    FORWARD_TRAINING,
    Arg,
    BinaryAlgorithm,
    NormalizationFlag,
)
from dovetail_onednn.attributes import Binary, operand
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.execution import Argument, Execution, Work, release_gil
from dovetail_onednn.layouts import images, vector
from dovetail_onednn.normalization import flags_of, norm_step
from dovetail_onednn.post_ops import can_fuse, chain_of
from dovetail_onednn.primitives import ENGINE, Description, Primitive, PrimitiveDesc
from dovetail_onednn.recipes import BUILDERS
from dovetail_onednn.steps import is_slow

_BY_GROUP = "onednn.item_norm"
_VECTOR = 16
# Elements of a row: fewer are slow, and the vectors of more exceed the nearest cache.
_LEAST, _MOST = 64, 4096
# With fewer elements of an item NumPy's kernel is faster: a run has some 17 calls on vectors.
_LEAST_SHARED = 32768
# Instead of an epsilon of 0, with which the library divides by 0 where a channel is constant.
_EPSILON = 1e-12


def can_fuse_after_norm(group: Sequence[NodeView], node: NodeView) -> bool:
    """Return whether a node can run with a norm and those after it; see `Kernel.can_fuse`."""
    if not can_fuse(group, node):
        return False
    head, shape = group[0], group[0].outs[0].shape
    if not _is_usual(head.op_type, head.op) or not _is_by_group(shape):
        return False
    # an operand has neither parts for the items nor repetitions for joined positions
    is_plain = shape[0] == 1 and _positions_in_row(shape) == 1
    written = {tensor for view in group for tensor in view.node.outputs}
    return is_plain or written.issuperset(node.node.inputs)


def instance_norm(call: KernelCall) -> Step | None:
    """Run InstanceNorm by mean and deviation over space; see `Kernel.make`."""
    if not is_float32(call) or not _is_usual(call.head.op_type, call.op):
        return None
    shape = call.spec(0).shape
    is_plain = shape[0] == 1 and not call.fused
    if is_plain and (_positions_in_row(shape) == 1 or not _is_by_group(shape)):
        return _alone(call, images((1, 1, math.prod(shape[:-1]), shape[-1])))
    return _by_group(call, shape[-1])


def group_norm(call: KernelCall) -> Step | None:
    """Run GroupNorm; see `Kernel.make`."""
    return _by_group(call, call.op.group) if is_float32(call) else None


def _is_usual(op_type: str, op: Any) -> bool:
    """Return whether a norm is that of mean and deviation over all positions."""
    return op_type == "GroupNorm" or bool(op.is_by_channel)


def _is_by_group(shape: Sequence[int]) -> bool:
    """Return whether items are large enough, and have rows, for a norm by group."""
    width = _positions_in_row(shape) * shape[-1]
    return 0 < width <= _MOST and math.prod(shape[1:]) >= _LEAST_SHARED


def _positions_in_row(shape: Sequence[int]) -> int:
    """Return how many positions of an item make a row that fills vectors; 0 if no number does.

    The fewest with `_LEAST` elements, or else the most.
    """
    positions, channels = math.prod(shape[1:-1]), shape[-1]
    found = 0
    for count in range(1, min(positions, max(_LEAST, channels) // channels * _VECTOR) + 1):
        if positions % count == 0 and count * channels % _VECTOR == 0:
            found = count
            if count * channels >= _LEAST:
                break
    return found


def _norm(
    rows: MemoryDesc,
    kind: int,
    epsilon: float,
    flags: NormalizationFlag,
) -> Description:
    return Description(
        "batch_normalization_forward",
        (ENGINE, kind, rows, rows, epsilon, flags),
        lambda: f"a float32 normalization of the channels of {rows.key}",
    )


def _alone(call: KernelCall, rows: MemoryDesc) -> Step | None:
    """Return the step of channels of one item, which is a primitive by itself."""
    norm = _norm(rows, FORWARD_INFERENCE, float(call.op.epsilon), flags_of(call))
    with PrimitiveDesc(norm) as desc:
        return norm_step(call, desc, rows, rows.dims[1])


def _by_group(call: KernelCall, groups: int) -> Step | None:
    """Return the step of channels or groups of channels of each item."""
    shape = call.spec(0).shape
    if not _is_by_group(shape):
        return None
    items, channels, count = shape[0], shape[-1], _positions_in_row(shape)
    height, width = math.prod(shape[1:-1]) // count, count * channels
    rows = images((1, 1, height, width))
    epsilon = float(call.op.epsilon)
    norm = _norm(rows, FORWARD_TRAINING, epsilon or _EPSILON, NormalizationFlag(0))
    each = images((1, 1, 1, width))
    fused = chain_of(call, lambda shape: _operand(shape, rows))
    added = Binary(BinaryAlgorithm.ADD, each)
    chain = (added, *fused.ops)
    scaling = Description(
        "binary",
        (ENGINE, BinaryAlgorithm.MULTIPLY, rows, each, rows),
        lambda: f"a float32 multiply + {' + '.join(map(str, chain))} of {rows.key} and {each.key}",
        chain,
    )
    with PrimitiveDesc(norm) as of_norm, PrimitiveDesc(scaling) as of_scaling:
        if is_slow(of_norm) or is_slow(of_scaling):
            return None
        normalize, scale = Primitive(of_norm), Primitive(of_scaling)
    x, factors = call.read(0), tuple(call.read(i) if call.has(i) else None for i in (1, 2))
    others: dict[int, Argument] = {}
    for position, index in fused.operands:
        op = fused.ops[position]
        if not isinstance(op, Binary):
            raise AssertionError(f"{op} reads no tensor of a norm")
        others[operand(position + 1, op)] = Argument(op.other, call.read(index))
    out = call.write()
    vectors = [call.scratch(size * 4) for size in (*(width,) * 4, groups)]
    mean, variance = (Argument(vector(width), value) for value in vectors[:2])
    factor, summand = (Argument(each, value) for value in vectors[2:4])
    needed = max(each.scratchpad.nbytes for each in (normalize, scale))
    pad, gil = call.scratch(needed) if needed else None, release_gil(call.options)
    statistics: dict[int, Argument] = {Arg.MEAN: mean, Arg.VARIANCE: variance}
    numbers: dict[int, Argument] = {Arg.OTHER: factor, operand(0, added): summand, **others}
    norms, scalings = [], []
    for at in range(0, items * rows.nbytes, rows.nbytes):
        target = Argument(rows, out, at)
        arguments = {Arg.SOURCE: Argument(rows, x, at), **statistics, Arg.DESTINATION: target}
        norms.append(Execution([Work(normalize, arguments)], pad, gil))
        arguments = {Arg.SOURCE: target, **numbers, Arg.DESTINATION: target}
        scalings.append(Execution([Work(scale, arguments)], pad, gil))
    sizes = (count, groups, channels // groups)
    bind = _ByGroup(norms, scalings, vectors, factors, sizes, epsilon)
    return call.step(bind, in_place=[(0, 0)])


def _operand(shape: Shape, rows: MemoryDesc) -> MemoryDesc:
    """Describe the operand of a fused node: as large as the result, by channel, or a number."""
    size = math.prod(shape)
    return rows if size == math.prod(rows.dims) else images((1, 1, 1, size))


class _ByGroup:
    """The bind of normalizations by group.

    Args:
        norms: The bind of each item's normalization by channel, in place of the result.
        scalings: The bind of each item's product and sum by channel, in place.
        vectors: Means, variances, factors and summands by channel, and a number for each group.
        factors: Gamma and beta; None where they are omitted.
        sizes: Positions in a row, groups of a position, and channels of a group.
        epsilon: Added to the variances of groups; also to those of channels, if it is not 0.
    """

    def __init__(
        self,
        norms: Sequence[Bind],
        scalings: Sequence[Bind],
        vectors: Sequence[Value],
        factors: tuple[Value | None, ...],
        sizes: tuple[int, int, int],
        epsilon: float,
    ) -> None:
        self._norms, self._scalings = norms, scalings
        self._vectors, self._factors = tuple(vectors), factors
        self._sizes, self._epsilon = sizes, epsilon

    def __call__(self, buffers: Buffers) -> Bound:
        """Return the call for these buffers."""
        combined = self._combined(buffers)
        calls: list[Callable[[], object]] = []
        for norm, scaling in zip(self._norms, self._scalings, strict=True):
            calls += [norm(buffers), *combined, scaling(buffers)]
        return call_sequence(calls)

    def _combined(self, buffers: Buffers) -> Sequence[Callable[[], object]]:
        """Return the calls that compute factors and summands from means and variances."""
        count, groups, size = self._sizes
        *by_channel, total = (buffers.array(v).view(np.float32) for v in self._vectors)
        mean, variance, factor, summand = (each.reshape(self._sizes) for each in by_channel)
        scale = total.reshape(1, groups, 1)
        gamma, beta = (
            None if value is None else buffers.array(value).reshape(groups, size)
            for value in self._factors
        )
        share, of_group, of_channel, one = (
            np.asarray(number, np.float32)
            for number in (1 / (count * size), self._epsilon, self._epsilon or _EPSILON, 1)
        )
        added = functools.partial(np.add.reduce, axis=(0, 2), out=total)
        calls = [
            functools.partial(added, mean),
            functools.partial(np.multiply, scale, share, scale),
            functools.partial(np.subtract, mean, scale, summand),
            # the variance of a group: that of its channels and that of their means
            functools.partial(np.multiply, summand, summand, factor),
            functools.partial(np.add, factor, variance, factor),
            functools.partial(added, factor),
            functools.partial(np.multiply, scale, share, scale),
            functools.partial(np.add, scale, of_group, scale),
            functools.partial(np.sqrt, scale, scale),
            functools.partial(np.divide, one, scale, scale),
            functools.partial(np.add, variance, of_channel, factor),
            functools.partial(np.sqrt, factor, factor),
        ]
        for each in (factor, summand):
            calls.append(functools.partial(np.multiply, each, scale, each))
            if gamma is not None:
                calls.append(functools.partial(np.multiply, each, gamma, each))
        if beta is not None:
            calls.append(functools.partial(np.add, summand, beta, summand))
        return calls

    def record(self, recorder: PlanRecorder) -> tuple[str, Data]:
        """Return it as data; see `Recipe`."""
        return _BY_GROUP, ItemNormData(
            tuple(map(recorder.inner, self._norms)),
            tuple(map(recorder.inner, self._scalings)),
            tuple(map(recorder.value, self._vectors)),
            tuple(map(recorder.optional, self._factors)),
            self._sizes,
            self._epsilon,
        )


class ItemNormData(Data, frozen=True):
    """The executions of items, the vectors, gamma and beta, sizes, and epsilon."""

    norms: tuple[tuple[str, Any], ...]
    scalings: tuple[tuple[str, Any], ...]
    vectors: tuple[int, ...]
    factors: tuple[int | None, ...]
    sizes: tuple[int, int, int]
    epsilon: float


@BUILDERS.builds(_BY_GROUP, ItemNormData)
def _item_norm(data: ItemNormData, source: Source) -> _ByGroup:
    vectors = [source.value(number) for number in data.vectors]
    factors = tuple(None if number is None else source.value(number) for number in data.factors)
    count, groups, size = data.sizes
    lengths = len(data.vectors), len(data.factors), len(data.norms)
    if min(data.sizes) < 1 or lengths != (5, 2, len(data.scalings)):
        raise RecipeError(f"impossible groups {data.sizes} of a normalization")
    each = groups * size * 4
    wanted = [*(count * each,) * 4, groups * 4]
    for value, nbytes in zip(vectors, wanted, strict=True):
        if value.nbytes != nbytes or value.root.storage is not Storage.ARENA:
            raise RecipeError(f"a norm has '{value.name}' as a vector of {nbytes} bytes")
    for factor in factors:
        if factor is not None and factor.nbytes != each:
            raise RecipeError(f"'{factor.name}' has {factor.nbytes} bytes; the channels {each}")
    norms = [source.bind(*each) for each in data.norms]
    scalings = [source.bind(*each) for each in data.scalings]
    return _ByGroup(norms, scalings, vectors, factors, data.sizes, data.epsilon)
