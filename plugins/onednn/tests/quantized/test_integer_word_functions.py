"""Functions of 16-bit tensors on oneDNN: bits equal to the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instruction_limits import examples

from dovetail.ir import DType, TensorKind

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
