"""Functions of 16-bit tensors on oneDNN: bits equal to the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instruction_limits import examples

from dovetail.ir import DType, ScaleOffset, Tensor, TensorKind
from dovetail_onednn.quantized import word_conversions

U8, S8, S32 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8, DType.SFIXED_POINT_32
U16, S16 = DType.UFIXED_POINT_16, DType.SFIXED_POINT_16
ZEROS = {
    U16: [0, 1, 255, 256, 31821, 65535],
    S16: [-32768, -1, 0, 77, 32767],
    U8: [0, 113],
    S8: [-128, 5],
}


@examples(60)
@given(
    source=st.sampled_from([U16, S16, U8, S8]),
    target=st.sampled_from([U16, S16, U8, S8]),
    weights=st.sampled_from([(U8, 0), (U8, 131), (S8, 0), (U16, 0), (U16, 4711), (S16, 0)]),
    bias=st.sampled_from([None, U8, S32]),
    per_unit=st.booleans(),
    zeros=st.tuples(st.integers(0, 5), st.integers(0, 5)),
    scale=st.sampled_from([0.003, 0.11, 2.7]),
)
def test_batchnorm_of_every_stored_integer(
    new_network: Any,
    source: DType,
    target: DType,
    weights: tuple[DType, int],
    bias: DType | None,
    per_unit: bool,
    zeros: tuple[int, int],
    scale: float,
) -> None:
    net, units = new_network(), 5
    low, high = source.stored_range()
    every = np.arange(low, high + 1).astype(source.storage)
    pairs = zip((ZEROS[source], ZEROS[target]), zeros, strict=True)
    zero, shift = (known[which % len(known)] for known, which in pairs)
    x = net.input("x", (len(every), units), source, zero)
    dtype, own = weights
    operands = [x, net.weights("w", (units,), dtype, zero=own, axis=0 if per_unit else None)]
    if bias is not None:
        operands.append(net.bias("b", units, bias))
    y = net.add("Batchnorm", *operands, name="y", dtype=target, scale=scale, zero=shift)
    y.kind = TensorKind.APP_READ
    feeds = {"x": np.repeat(every[:, None], units, 1)}
    prepared = net.prepare()
    assert all(type(s.bind).__module__.startswith("dovetail_onednn.") for s in prepared.steps)
    found, wanted = net.run(prepared, feeds), net.defined(feeds)
    np.testing.assert_array_equal(found["y"], wanted["y"])


@pytest.mark.parametrize("shape", [(1, 9, 7, 24), (2, 5, 5, 3), (64, 33), (1, 60, 60, 32)])
def test_batchnorm_of_shapes(new_network: Any, shape: Any) -> None:
    net, units = new_network(), shape[-1]
    x = net.input("x", shape, U16, zero=300)
    operands = [x, net.weights("w", (units,), U8, zero=77), net.bias("b", units)]
    net.check(net.add("Batchnorm", *operands, name="y", dtype=U16, scale=0.0117, zero=40))


# rows that fill no vector; an operand for each channel, for each row, and of one element
PAIRS = [
    ((256, 256), (256, 256)),
    ((37, 131), (37, 131)),
    ((1, 14, 14, 72), (1, 1, 1, 72)),
    ((3, 50, 71), (71,)),
    ((2, 40, 80), (2, 1, 80)),
    ((2, 40, 80), (40, 1)),
    ((90, 91), (1, 1)),
    ((1, 40, 50, 3), (3,)),
]
TYPES = st.sampled_from([U16, S16, U8, S8])


@st.composite
def grids(draw: st.DrawFn, types: st.SearchStrategy[DType] = TYPES) -> dict[str, Any]:
    """Draw type and encoding of a tensor, extreme ones too."""
    dtype = draw(types)
    low, high = dtype.stored_range()
    scale = draw(st.floats(2**-9, 2**3, width=32) | st.floats(2**-40, 2**30, width=32))
    zero = draw(st.sampled_from([0, low, high]) | st.integers(low, high))
    bits = draw(st.sampled_from([None, None, None, 5]))
    return {"dtype": dtype, "encoding": ScaleOffset(scale, -zero, bits)}


@pytest.mark.parametrize("op", ["ElementWiseAdd", "ElementWiseSubtract", "ElementWiseMultiply"])
@given(
    shapes=st.sampled_from(PAIRS),
    drawn=st.tuples(grids(st.sampled_from([U16, S16])), grids(), grids()),
    order=st.permutations(range(3)),
)
@examples(60)
def test_two_tensors(new_network: Any, op: str, shapes: Any, drawn: Any, order: Any) -> None:
    first, second, target = (drawn[i] for i in order)  # each may be the one of 16 bits
    net = new_network()
    for name, shape, grid in zip("ab", shapes, (first, second), strict=True):
        net.graph.add_tensor(Tensor(name, shape=shape, kind=TensorKind.APP_WRITE, **grid))
    result = net.add(op, net.graph.tensor("a"), net.graph.tensor("b"), name="y")
    result.dtype, result.encoding = target["dtype"], target["encoding"]
    net.check(result, engine=False)


@pytest.mark.parametrize("op", ["ElementWiseAdd", "ElementWiseSubtract", "ElementWiseMultiply"])
@pytest.mark.parametrize("target", [U16, U8])
@pytest.mark.parametrize("shapes", PAIRS[:4])
def test_engine_computes_usual_encodings(
    new_network: Any, op: str, target: DType, shapes: Any
) -> None:
    net = new_network()
    zeros = (300, 77)
    ins = [net.input(n, s, U16, zero=z) for n, s, z in zip("ab", shapes, zeros, strict=True)]
    y = net.add(op, *ins, name="y", dtype=target, scale=0.031, zero=40)
    prepared = net.check(y, engine=False)
    assert [step.bind.__module__ for step in prepared.steps] == [word_conversions.__name__]
