"""The transpose of constants by strips against NumPy's."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dovetail_opset.importing.transposition import transposed_copy


@pytest.mark.parametrize(
    "shape",
    [
        (),
        (5,),
        (0, 3),
        (1, 1),
        (130, 65),
        (64, 128),
        (3, 70, 4),
        (2, 3, 1, 1),
        (66, 5, 3, 67),
        (130, 300),
        (1, 7, 1, 70),
    ],
)
def test_it_is_numpy_s(shape) -> None:
    values = np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)
    for perm in itertools.permutations(range(len(shape))):
        found = transposed_copy(values, perm)
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found, values.transpose(perm))
