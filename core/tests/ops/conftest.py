"""An op package of the tests' own."""

from __future__ import annotations

import enum
from collections.abc import Sequence

import numpy as np
import pytest

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Spec
from dovetail.ops import (
    Domain,
    In,
    Op,
    OpPackage,
    OpRegistry,
    Out,
    bool8,
    choice,
    last_axis,
    tensor,
    uint32,
)

PACKAGE = OpPackage("test.ops")


class Mode(enum.IntEnum):
    NEAREST = 0
    LINEAR = 2


@PACKAGE.op("Scale")
class Scale(Op):
    """x times `by`, or x divided by it."""

    inputs = (In("in[0]"), In("in[1]", (DType.FLOAT_32,), optional=True))

    by = uint32()
    inverse = bool8(False)
    mode = choice(Mode, Mode.LINEAR)
    axis = uint32(last_axis)
    pads = tensor((None, 2), lambda ins: np.zeros((len(ins[0].shape), 2), np.uint32))

    def infer(self, x: Spec, bias: Spec | None, out: Spec | None) -> Spec:
        if bias is not None and bias.shape not in ((), x.shape):
            raise OpError(f"bias {bias.shape} does not fit {x.shape}", hint="give it that shape")
        return Spec(out.dtype if out is not None else x.dtype, x.shape)

    def reference(self, x: Array, bias: Array | None) -> Array:
        scaled = x / self.by if self.inverse else x * self.by
        return scaled if bias is None else scaled + bias


@PACKAGE.op("Gather")
class Gather(Op):
    """Slices of in[0] along axis 0, by index."""

    inputs = (In("in[0]"), In("in[1]", (DType.INT_32,)))
    domain = Domain.MOVE

    def infer(self, x: Spec, indices: Spec, out: Spec | None) -> Spec:
        return Spec(x.dtype if out is None else out.dtype, indices.shape + x.shape[1:])

    def reference(self, x: Array, indices: Array) -> Array:
        return x[indices]


@PACKAGE.op("Bits")
class Bits(Op):
    """The stored integers of in[0] and the offset that its encoding gives them."""

    inputs = (In("in[0]"),)
    outputs = (Out("out[0]"), Out("out[1]", optional=True))
    domain = Domain.STORED

    def infer(self, x: Spec, plain: Spec | None, offset: Spec | None) -> tuple[Spec, Spec]:
        return Spec(DType.INT_32, x.shape), Spec(DType.INT_32, ())

    def reference(self, x: Array, plain: Spec, offset: Spec | None) -> tuple[Array, Array]:
        return x.astype(np.int32), np.asarray(0 if offset is None else 1, np.int32)


@PACKAGE.op("Join")
class Join(Op):
    """All inputs, one after the other."""

    inputs = (In("in[0]"), In("in[1..m]", variadic=True))
    domain = Domain.MOVE

    def infer(self, ins: Sequence[Spec], outs: Sequence[Spec | None]) -> Spec:
        extent = sum(s.shape[0] for s in ins)
        return Spec(ins[0].dtype, (extent, *ins[0].shape[1:]))

    def reference(self, ins: Sequence[Array], outs: Sequence[Spec]) -> Array:
        return np.concatenate(ins)


@pytest.fixture(scope="session")
def registry() -> OpRegistry:
    return OpRegistry.of(PACKAGE)
