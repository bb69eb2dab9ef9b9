"""Einsum, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from dovetail.errors import FrontendError

EQUATIONS = {
    "ij->ji": [(2, 3)],
    "ij": [(2, 3)],
    "ba": [(2, 3)],
    "ii->i": [(4, 4)],
    "iji->j": [(3, 2, 3)],
    "iii": [(3, 3, 3)],
    "i,i": [(5,), (5,)],
    "i,j->ij": [(2,), (3,)],
    "ij,jk": [(2, 3), (3, 4)],
    "bhqd,bhkd->bhqk": [(2, 3, 4, 5), (2, 3, 6, 5)],
    "bqhd,bkhd->bhqk": [(2, 4, 3, 5), (2, 6, 3, 5)],
    "...ij,...jk->...ik": [(2, 1, 3, 4), (3, 4, 5)],
    "...ij,jk": [(2, 3, 4), (4, 5)],
    "i...->...": [(2, 3, 4)],
    "ij,kl->": [(2, 3), (4, 5)],
    "ij,jk,kl->il": [(2, 3), (3, 4), (4, 5)],
    "ij,ij,ij->i": [(2, 3), (2, 3), (2, 3)],
    "i j , j -> i": [(2, 3), (3,)],
    "ij,ij->i": [(2, 3), (2, 1)],
    ",ij->ij": [(), (2, 3)],
}


@pytest.mark.parametrize("equation", EQUATIONS)
def test_as_numpy_computes_it(model, read, evaluate, rng, equation) -> None:
    feeds = {
        f"x{i}": rng.normal(size=shape).astype(np.float32)
        for i, shape in enumerate(EQUATIONS[equation])
    }
    node = helper.make_node("Einsum", list(feeds), ["y"], equation=equation)
    found = evaluate(read(model([node], feeds, ["y"])), feeds)["y"]
    wanted = np.einsum(equation.replace(" ", ""), *(a.astype(float) for a in feeds.values()))
    assert found.shape == wanted.shape
    # sums of up to 30 products of numbers about 1
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("equation", "said"),
    [
        ("ij,jk", "equation 'ij,jk' does not match 1 inputs"),
        ("ijk->i", "does not match"),
        ("ij->k", "invalid output"),
        ("ij->ii", "invalid output"),
        ("ii->i", r"the sizes of 'i' differ in the input \(2, 3\)"),
        ("1j->j", "does not match"),
    ],
)
def test_wrong_equations(model, read, equation, said) -> None:
    feeds = {"x": np.zeros((2, 3), np.float32)}
    node = helper.make_node("Einsum", ["x"], ["y"], equation=equation)
    with pytest.raises(FrontendError, match=said):
        read(model([node], feeds, ["y"]))
