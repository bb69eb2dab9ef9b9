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


@pytest.mark.parametrize("dtype", [F32, I64, np.int32, np.float64])
@pytest.mark.parametrize(("offset", "scale"), [([0.5], [2.0]), ([1.0, -2.0, 0.5], [0.25] * 3)])
def test_scalers(agree, model, rng, dtype, offset, scale) -> None:
    x = rng.integers(-5, 5, (4, 3)).astype(dtype)
    agree(one(model, "Scaler", {"x": x}, offset=offset, scale=scale), {"x": x})


@pytest.mark.parametrize("missing", [float("nan"), 2.0])
@pytest.mark.parametrize("imputed", [[7.0], [1.0, -2.0, 0.5]])
def test_imputers(agree, model, missing, imputed) -> None:
    x = np.array([[1, missing, 2], [missing, 3, 4]], F32)
    attributes = {"imputed_value_floats": imputed, "replaced_value_float": missing}
    agree(one(model, "Imputer", {"x": x}, **attributes), {"x": x})


def test_imputers_of_integers(agree, model) -> None:
    x = np.array([[1, -1, 2], [-1, 3, 4]], I64)
    attributes = {"imputed_value_int64s": [7, 8, 9], "replaced_value_int64": -1}
    agree(one(model, "Imputer", {"x": x}, **attributes), {"x": x})


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
@pytest.mark.parametrize("dtype", [F32, I64])
def test_normalizers(agree, model, norm, dtype) -> None:
    """A row of zeros stays; a maximum has a sign."""
    x = np.array([[1, -3, 2], [0, 0, 0], [-4, -2, -1]], dtype)
    agree(one(model, "Normalizer", {"x": x}, norm=norm), {"x": x})


def test_features_joined(agree, model, rng) -> None:
    feeds = {"a": rng.standard_normal((2, 3)).astype(F32), "b": np.ones((2, 1), F32)}
    agree(one(model, "FeatureVectorizer", feeds, inputdimensions=[3, 1]), feeds)


@pytest.mark.parametrize(
    ("targets", "transform"), [(1, "NONE"), (3, "NONE"), (3, "LOGISTIC"), (3, "SOFTMAX")]
)
def test_linear_regressors(agree, model, rng, targets, transform) -> None:
    x, weights = rng.standard_normal((4, 2)).astype(F32), rng.standard_normal(2 * targets)
    given = {"coefficients": weights.tolist(), "targets": targets, "post_transform": transform}
    agree(one(model, "LinearRegressor", {"x": x}, **given), {"x": x})
    given["intercepts"] = rng.standard_normal(targets).tolist()
    agree(one(model, "LinearRegressor", {"x": x}, **given), {"x": x})


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("labels", [[7, 3], [4, -1, 9]])
def test_linear_classifiers(agree, model, rng, labels, transform) -> None:
    x, weights = rng.standard_normal((5, 2)).astype(F32), rng.standard_normal(2 * len(labels))
    made = classifier(model, x, weights, post_transform=transform, classlabels_ints=labels)
    agree(made, {"x": x})


def classifier(model, x, weights, outputs=("label", "scores"), **attributes):
    node = helper.make_node(
        "LinearClassifier",
        ["x"],
        ["label", "scores"],
        "n",
        domain=DOMAIN,
        coefficients=weights.tolist(),
        intercepts=[0.25] * (len(weights) // x.shape[1]),
        **attributes,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 3)]
    return model([node], {"x": x}, outputs, opset_imports=opsets)


def test_classifiers_whose_labels_are_text(agree, model, read, rng) -> None:
    """Only the scores can be converted."""
    x, weights = rng.standard_normal((5, 2)).astype(F32), rng.standard_normal(4)
    given = {"post_transform": "SOFTMAX", "classlabels_strings": ["a", "b"]}
    agree(classifier(model, x, weights, ["scores"], **given), {"x": x})
    with pytest.raises(UnsupportedOpError, match="unsupported class labels: strings"):
        read(classifier(model, x, weights, **given))


def test_classifiers_of_one_row(model, read) -> None:
    x = np.ones((5, 2), F32)
    with pytest.raises(
        UnsupportedOpError, match="2 coefficients for 2 class labels and 2 features"
    ):
        read(classifier(model, x, np.ones(2), classlabels_ints=[0, 1]))


@pytest.mark.parametrize(
    ("op_type", "attributes", "why"),
    [
        ("Scaler", {"offset": [1.0, 2.0], "scale": [1.0]}, "offset has 2 numbers for 3 features"),
        ("Scaler", {"offset": [1.0]}, "scale has 0 numbers for 3 features"),
        ("Normalizer", {"norm": "L3"}, "unsupported norm 'L3'; expected one of MAX, L1, L2"),
        ("LinearRegressor", {"coefficients": [1.0]}, "1 coefficient and 1 intercept do not match"),
        ("LinearRegressor", {"coefficients": [1.0] * 3, "targets": 0}, "do not match"),
    ],
)
def test_attributes_that_do_not_match(model, read, op_type, attributes, why) -> None:
    with pytest.raises(FrontendError, match=why):
        read(one(model, op_type, {"x": np.ones((2, 3), F32)}, **attributes))


@pytest.mark.parametrize(("name", "targets"), [("PROBIT", 3), ("LOGISTIC", 1)])
def test_other_transforms(model, read, name, targets) -> None:
    given = {"coefficients": [1.0] * 3 * targets, "targets": targets, "post_transform": name}
    with pytest.raises(UnsupportedOpError, match=f"unsupported post_transform '{name}'"):
        read(one(model, "LinearRegressor", {"x": np.ones((2, 3), F32)}, **given))


def test_refusals(model, read) -> None:
    x, beyond = np.ones((2, 3), F32), {"i": np.array([3], I64)}
    with pytest.raises(FrontendError, match="index 3 is out of range for 3 elements"):
        read(one(model, "ArrayFeatureExtractor", {"x": x}, beyond))
    with pytest.raises(UnsupportedOpError, match="unsupported input type INT_64"):
        read(one(model, "Binarizer", {"x": x.astype(I64)}))
    with pytest.raises(UnsupportedOpError, match="no version of this operator"):
        read(one(model, "SVMRegressor", {"x": x}))
