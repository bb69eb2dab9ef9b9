"""TfIdfVectorizer against the peer."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from dovetail.errors import FrontendError, UnsupportedOpError

I32, I64 = np.int32, np.int64
# 1, 2 and 3 words: 3 + 2 + 2 n-grams.
POOL = {
    "pool_int64s": [1, 2, 3, 1, 2, 3, 3, 1, 2, 1, 2, 2, 2],
    "ngram_counts": [0, 3, 7],
    "ngram_indexes": [4, 8, 0, 1, 2, 6, 5],
}
WEIGHTS = [0.5, 2.0, 3.0, 0.0, -1.0, 7.0, 1.5]


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize(
    ("least", "most", "skip"), [(1, 1, 0), (1, 1, 3), (1, 2, 1), (2, 3, 0), (1, 3, 2), (3, 3, 9)]
)
@pytest.mark.parametrize(("shape", "kind"), [((9,), I64), ((4, 9), I32), ((1, 2), I64)])
def test_counts(check, rng, shape, kind, least, most, skip, mode) -> None:
    x = rng.integers(0, 4, shape).astype(kind)
    lengths = {"min_gram_length": least, "max_gram_length": most, "max_skip_count": skip}
    for weights in ({}, {"weights": WEIGHTS}):
        check("TfIdfVectorizer", [x], mode=mode, **lengths, **POOL, **weights)


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_no_words(check, shape) -> None:
    lengths = {"min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 1}
    check("TfIdfVectorizer", [np.zeros(shape, I64)], mode="TF", **lengths, **POOL)


WORD = {"pool_int64s": [7], "ngram_counts": [0], "ngram_indexes": [0]}


@pytest.mark.parametrize(
    ("attributes", "kind", "message"),
    [
        (
            {"mode": "COUNT"},
            FrontendError,
            "unsupported mode 'COUNT'; expected one of TF, IDF, TFIDF",
        ),
        ({"pool_strings": ["a"]}, UnsupportedOpError, "unsupported words of type string"),
        ({"ngram_counts": [2, 1]}, FrontendError, r"ngram_counts \(2, 1\) do not divide 1 words"),
        (
            {"ngram_counts": [0, 0]},
            FrontendError,
            "1 words are not a multiple of the n-gram length 2",
        ),
        ({"ngram_indexes": [0, 1]}, FrontendError, "expected 1 ngram_indexes, none below 0, got 2"),
        ({"ngram_indexes": [-1]}, FrontendError, "below 0"),
        ({"ngram_indexes": [2**62]}, FrontendError, "too large"),
        ({"pool_int64s": [7, 7], "ngram_indexes": [0, 1]}, FrontendError, "duplicate n-grams of"),
        (
            {"pool_int64s": [7, 8], "ngram_indexes": [1, 1]},
            UnsupportedOpError,
            "unsupported duplicate in ngram_indexes",
        ),
        ({"pool_int64s": [2**40]}, FrontendError, "words of the n-grams do not fit INT_32"),
        ({"weights": [1.0, 2.0]}, FrontendError, "expected 1 weights, one for each n-gram, got 2"),
        (
            {
                "pool_int64s": [1, 2],
                "ngram_counts": [0, 0],
                "max_gram_length": 2,
                "max_skip_count": 2**62,
            },
            UnsupportedOpError,
            "take 598 comparisons; up to 256",
        ),
    ],
)
def test_refusals(model, read, attributes, kind, message) -> None:
    lengths = {"min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0}
    given = {"mode": "TF", **lengths, **WORD, **attributes}
    if "pool_strings" in attributes:
        del given["pool_int64s"]
    node = helper.make_node("TfIdfVectorizer", ["x"], ["y"], **given)
    with pytest.raises(kind, match=message):
        read(model([node], {"x": np.zeros(300, I32)}, ["y"]))
