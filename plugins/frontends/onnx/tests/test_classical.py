"""Operators of ai.onnx.ml against the peer."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from dovetail.errors import FrontendError, UnsupportedOpError

F32, I64 = np.float32, np.int64
DOMAIN = "ai.onnx.ml"


def one(model, op_type, feeds, known=None, **attributes):
    names = [*feeds, *(known or {})]
    node = helper.make_node(op_type, names, ["y"], "n", domain=DOMAIN, **attributes)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 3)]
    return model([node], feeds, ["y"], known, opset_imports=opsets)


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize(
    ("shape", "index"), [((5,), [4, 0]), ((2, 5), [3]), ((2, 3, 5), [[1, 1, 4]])]
)
def test_features(agree, model, rng, shape, index, is_known) -> None:
    x, places = rng.standard_normal(shape).astype(F32), {"i": np.array(index, I64)}
    feeds, known = ({"x": x}, places) if is_known else ({"x": x, **places}, {})
    agree(one(model, "ArrayFeatureExtractor", feeds, known), feeds)


@pytest.mark.parametrize("threshold", [None, 0.5, -1.0, float("inf")])
def test_thresholds(agree, model, threshold) -> None:
    x = np.array([[-2, -1, 0, 0.5, 0.51], [np.inf, -np.inf, -0.0, 1, 3]], F32)
    given = {} if threshold is None else {"threshold": threshold}
    agree(one(model, "Binarizer", {"x": x}, **given), {"x": x})


def test_refusals(model, read) -> None:
    x, beyond = np.ones((2, 3), F32), {"i": np.array([3], I64)}
    with pytest.raises(FrontendError, match="index 3 is out of range for 3 elements"):
        read(one(model, "ArrayFeatureExtractor", {"x": x}, beyond))
    with pytest.raises(UnsupportedOpError, match="unsupported input type INT_64"):
        read(one(model, "Binarizer", {"x": x.astype(I64)}))
    with pytest.raises(UnsupportedOpError, match="no version of this operator"):
        read(one(model, "Scaler", {"x": x}, offset=[0.0], scale=[2.0]))
