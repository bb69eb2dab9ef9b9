"""Cases of normalizations and embeddings."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dovetail.ir import Array
from microsoft_cases._case import F32, Case, Data, Known, case

# A normalization of a mean near 0 loses some digits in either implementation.
_ATOL = 5e-6


def cases() -> Iterator[Case]:
    """Return the cases."""
    rng = np.random.default_rng(4)

    def data(*shape: int) -> Array:
        return rng.normal(size=shape).astype(F32)

    yield from _plain(data)
    yield from _with_skip(data)
    yield from _embeddings(data, rng)


def _plain(data: Data) -> Iterator[Case]:
    x, gamma, beta = data(2, 3, 8), Known(data(8)), Known(data(8))
    for opset in (11, 16):
        old = {"domain": "", "opset_import": opset, "atol": _ATOL}
        yield case("LayerNormalization", f"opset {opset}", [x, gamma, beta], **old)
    old = {"domain": "", "opset_import": 13, "atol": _ATOL}
    yield case("LayerNormalization", "no shift", [x, gamma], epsilon=1e-3, **old)
    whole = Known(data(3, 8))
    yield case("LayerNormalization", "two axes", [x, whole, whole], axis=1, **old)
    yield case("LayerNormalization", "statistics", [x, gamma, beta], outputs=3, **old)
    for opset in (13, 21):
        given = {"domain": "", "opset_import": opset, "atol": _ATOL}
        yield case("SimplifiedLayerNormalization", f"opset {opset}", [x, gamma], **given)
    yield case(
        "SimplifiedLayerNormalization", "an epsilon", [data(5, 8), gamma], epsilon=0.1, **old
    )


def _with_skip(data: Data) -> Iterator[Case]:
    x, skip = data(2, 3, 8), data(2, 3, 8)
    gamma, beta, bias = (Known(data(8)) for _ in range(3))
    op, near = "SkipLayerNormalization", {"atol": _ATOL}
    yield case(op, "no shift", [x, skip, gamma], **near)
    yield case(op, "a shift", [x, skip, gamma, beta], epsilon=1e-5, **near)
    yield case(op, "a bias", [x, skip, gamma, beta, bias], **near)
    yield case(op, "a bias without a shift", [x, skip, gamma, None, bias], **near)
    yield case(op, "one skip for all", [x, data(1, 3, 8), gamma, beta], **near)
    yield case(op, "a skip without a batch", [x, data(3, 8), gamma, beta], **near)
    total = ("y0", "", "", "y3")
    yield case(op, "its sum", [x, skip, gamma, beta, bias], outputs=total, **near)
    op = "SkipSimplifiedLayerNormalization"
    yield case(op, "no bias", [x, skip, gamma], **near)
    yield case(op, "a bias", [x, skip, gamma, bias], epsilon=1e-5, **near)
    yield case(op, "its sum", [x, skip, gamma], outputs=total, **near)
    yield case(op, "rows", [data(4, 8), data(4, 8), gamma], outputs=total, **near)


def _embeddings(data: Data, rng: np.random.Generator) -> Iterator[Case]:
    words, places, segments, gamma, beta = (
        Known(data(*shape)) for shape in ((11, 8), (7, 8), (2, 8), (8,), (8,))
    )

    def ids(limit: int) -> Array:
        return rng.integers(0, limit, (2, 5), np.int32)

    op, near = "EmbedLayerNormalization", {"atol": _ATOL}
    mask = np.array([[1, 1, 1, 0, 0], [1, 0, 1, 1, 1]], np.int32)
    all_of = [ids(11), ids(2), words, places, segments, gamma, beta]
    yield case(op, "no mask", all_of, outputs=2, **near)
    yield case(op, "a mask", [*all_of, mask], outputs=2, epsilon=1e-6, **near)
    yield case(op, "its sum", [*all_of, mask], outputs=3, **near)
    without = [ids(11), None, words, places, None, gamma, beta]
    yield case(op, "no segments", without, mask_index_type=0, **near)
    yield case(op, "no segments, its sum", [*without, mask], outputs=3, **near)
    told = [*all_of, mask, ids(7)]
    yield case(op, "places that are told", told, outputs=2, **near)
    one = [*all_of, None, ids(7)[:1]]
    yield case(op, "places of one row for all", one, mask_index_type=0, **near)
