"""Cases of attention to itself and of queries to given keys."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dovetail.ir import Array
from microsoft_cases._case import F32, Case, Data, Known, case


def cases() -> Iterator[Case]:
    """Return the cases."""
    rng = np.random.default_rng(5)

    def data(*shape: int) -> Array:
        return rng.normal(size=shape).astype(F32)

    yield from _to_itself(data)
    yield from _of_queries(data)
    yield from _of_one_row(data)


def masks(batch: int, queries: int, keys: int) -> Iterator[tuple[str, Array]]:
    """Return masks of all kinds for a batch of two."""
    rng = np.random.default_rng(6)
    raw = np.ones((batch, keys), np.int32)
    raw[0, -2:] = 0
    yield "(batch, keys)", raw
    yield "(batch, keys), left", raw[:, ::-1].copy()
    yield "(batch, keys), nothing to see", np.zeros_like(raw)
    yield "(batch, queries, keys)", rng.integers(-1, 3, (batch, queries, keys), np.int32)
    yield "ends", np.array([keys - 1, 2], np.int32)


def _to_itself(data: Data) -> Iterator[Case]:
    op, heads = "Attention", {"num_heads": 2}
    x, w, b = data(2, 5, 6), Known(data(6, 24)), Known(data(24))
    yield case(op, "no mask", [x, w, b], **heads)
    yield case(op, "weights and bias that are fed", [x, w.values, b.values], **heads)
    yield case(op, "a scale", [x, w, b], scale=0.3, **heads)
    yield case(op, "one row", [x[:, :1], w, b], unidirectional=1, **heads)
    for name, mask in masks(2, 5, 5):
        yield case(op, f"mask {name}", [x, w, b, mask], **heads)
        yield case(op, f"mask {name}, known", [x, w, b, Known(mask)], **heads)
        yield case(op, f"mask {name}, causal", [x, w, b, mask], unidirectional=1, **heads)
    starts = np.array([5, 3, 1, 2], np.int32)
    yield case(op, "mask ends and starts", [x, w, b, starts], **heads)
    packed = np.array([5, 3, 0, 5, 8, 0, 5, 8], np.int32)
    yield case(op, "mask ends and offsets", [x, w, b, packed], **heads)
    yield case(op, "mask that stands for none", [x, w, b, np.zeros((2, 1), np.int32)], **heads)
    mask = next(masks(2, 5, 5))[1]
    soft = {"mask_filter_value": -1.5, **heads}
    yield case(op, "a soft mask", [x, w, b, mask], unidirectional=1, **soft)
    for first in (1, 2):
        bias = data(first, first, 5, 5)
        about = f"scores with a bias of {first} batch(es)"
        yield case(op, about, [x, w, b, mask, None, bias], **heads)
    sizes = {"qkv_hidden_sizes": [8, 8, 4], **heads}
    yield case(op, "values of another size", [x, Known(data(6, 20)), Known(data(20))], **sizes)
    past = data(2, 2, 2, 3, 4)
    yield case(op, "a past", [x, w, b, None, past], outputs=2, **heads)
    with_mask = [x, w, b, np.array([[0] * 2 + [1] * 6, [1] * 8], np.int32), past]
    yield case(op, "a past and a mask", with_mask, outputs=2, unidirectional=1, **heads)
    one_more = [x[:, :1], w, b, None, past]
    yield case(op, "a past and one row", one_more, outputs=2, unidirectional=1, **heads)
    yield case(op, "an empty past", [x, w, b, None, past[..., :0, :]], outputs=2, **heads)
    yield case(op, "a present without a past", [x, w, b], outputs=2, **heads)


def _of_queries(data: Data) -> Iterator[Case]:
    op, heads = "MultiHeadAttention", {"num_heads": 2}
    q, k, v = data(2, 4, 6), data(2, 5, 6), data(2, 5, 8)
    bias = data(20)
    yield case(op, "keys of another length", [q, k, v], **heads)
    yield case(op, "a known bias", [q, k, v, Known(bias)], **heads)
    yield case(op, "a bias that is fed", [q, k, v, bias], **heads)
    yield case(op, "a scale", [q, k, v], scale=0.2, **heads)
    yield case(op, "present keys and values", [q, k, v, Known(bias)], outputs=3, **heads)
    for name, mask in masks(2, 4, 5):
        yield case(op, f"mask {name}", [q, k, v, None, mask], **heads)
    packed = np.array([5, 3, 0, 4, 8, 0, 5, 10], np.int32)
    yield case(op, "mask ends and offsets", [q, k, v, None, packed], **heads)
    mask = next(masks(2, 4, 5))[1]
    soft = {"mask_filter_value": -2.0, **heads}
    yield case(op, "a soft mask", [q, k, v, None, mask], **soft)
    for first in (1, 2):
        scores = data(first, first, 4, 5)
        about = f"scores with a bias of {first} batch(es)"
        yield case(op, about, [q, k, v, Known(bias), mask, scores], **heads)
    apart = [q, data(2, 2, 5, 3), data(2, 2, 5, 3)]
    yield case(op, "keys in heads", apart, **heads)
    yield case(op, "keys in heads and a bias", [*apart, Known(data(18))], **heads)
    own = [q, data(2, 4, 6), data(2, 4, 6)]
    left = np.array([[0, 0, 1, 1], [1, 1, 1, 1]], np.int32)
    yield case(op, "causal", own, unidirectional=1, **heads)
    yield case(op, "causal and a mask", [*own, None, left], unidirectional=1, **heads)
    past = [data(2, 2, 3, 3), data(2, 2, 3, 3)]
    after = [*own, None, None, None, *past]
    yield case(op, "a past", after, outputs=3, **heads)
    yield case(op, "a past, causal", after, outputs=3, unidirectional=1, **heads)
    long = np.array([[0, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0, 0]], np.int32)
    masked = [*own, None, long, None, *past]
    # without its outputs for the present, ONNX Runtime reads beyond the keys
    yield case(op, "a past and a mask", masked, outputs=3, **heads)


def _of_one_row(data: Data) -> Iterator[Case]:
    op, heads = "DecoderMaskedMultiHeadAttention", {"num_heads": 2}
    row = [data(2, 1, 8), data(2, 1, 8), data(2, 1, 8)]
    yield case(op, "the row alone", row, **heads)
    given = [row[0], data(2, 2, 5, 4), data(2, 2, 5, 4)]
    mask = np.array([[1, 1, 0, 1, 1], [1, 1, 1, 0, 0]], np.int32)
    yield case(op, "given keys", given, **heads)
    yield case(op, "given keys and a scale", given, scale=0.3, **heads)
    yield case(op, "given keys and a mask", [*given, mask], **heads)
    yield case(op, "given keys, a soft mask", [*given, mask], mask_filter_value=-2.0, **heads)
    yield case(op, "given keys and a known bias", [*given, *[None] * 7, Known(data(24))], **heads)
    buffers = [data(2, 2, 6, 4), data(2, 2, 6, 4)]
    shared = {"past_present_share_buffer": 1, "outputs": 3, **heads}
    for past in (0, 3, 5):
        length = np.array([past], np.int32)
        after = [*row, None, None, *buffers, length]
        yield case(op, f"a buffer with {past} rows", after, **shared)
        known = [*row, None, None, *buffers, Known(length), None, None, Known(data(24))]
        yield case(op, f"a buffer with {past} rows and a bias, known", known, **shared)
    one = Known(np.array([1], np.int32))
    beam = [*row, None, None, *buffers, np.array([2], np.int32), one]
    yield case(op, "a buffer and one beam", beam, **shared)
    three = np.array([3], np.int32)
    ends = np.array([[1, 0, 1, 1], [0, 1, 1, 1]], np.int32)
    yield case(op, "a buffer and a mask", [*row, ends, None, *buffers, three], **shared)
    scores = data(2, 2, 1, 4)
    hidden = [*row, None, scores, *buffers, three]
    yield case(op, "a buffer and a bias of scores", hidden, **shared)
