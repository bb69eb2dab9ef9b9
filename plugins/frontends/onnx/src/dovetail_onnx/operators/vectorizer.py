"""Counts of n-grams."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import pairwise
from operator import add, and_

import numpy as np

from dovetail.ir import Array, DType, Spec, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._formula import Expr, where
from dovetail_onnx.operators._table import ONNX
from dovetail_opset.importing.layout import reshaped

_MODES = ("TF", "IDF", "TFIDF")
# Of a whole text with one word of all n-grams of a length: known models have some ten.
_MOST_COMPARISONS = 256


@ONNX.importer("TfIdfVectorizer", versions=(9,))
def tf_idf_vectorizer(op: OpContext) -> Tensor:
    """Compare the shifted texts with the words of all n-grams at once, and count matches."""
    x = op.spec(0)
    if "pool_strings" in op.attr or not x.dtype.is_int:
        raise op.unsupported(
            "unsupported words of type string", hint="number the words before the model"
        )
    if len(x.shape) not in (1, 2):
        raise op.invalid(f"input must be (words,) or (n, words), got shape {x.shape}")
    mode = op.attr.text("mode", "")
    if mode not in _MODES:
        raise op.invalid(f"unsupported mode '{mode}'; expected one of {', '.join(_MODES)}")
    pools = list(_pools(op))
    rows, words = (1, *x.shape)[-2:]
    texts = reshaped(op, "texts", op.tensor(0), (rows, words, 1))
    columns = _columns(op, sum(len(pool) for _, pool in pools))
    shortest, longest = (op.attr.integer(f"{end}_gram_length", 1) for end in ("min", "max"))
    counts = [
        _counts(op, texts, pool) if shortest <= length <= longest else _none(op, rows, len(pool))
        for length, pool in pools
    ]
    found = op.step("counts", "Concat", counts, axis=1) if len(counts) > 1 else counts[0]
    return _placed(op, _weighted(op, found, mode), columns)


def _pools(op: OpContext) -> Iterator[tuple[int, Array]]:
    """Yield the n-grams of each length that occurs, (n-grams, length)."""
    pool = np.array(op.attr.integers("pool_int64s") or (), np.int64)
    starts = op.attr.integers("ngram_counts") or ()
    bounds = [*starts, len(pool)]
    if not starts or starts[0] != 0 or sorted(bounds) != bounds:
        raise op.invalid(f"ngram_counts {starts} do not divide {len(pool)} words")
    for length, (start, end) in enumerate(pairwise(bounds), 1):
        if (end - start) % length:
            raise op.invalid(
                f"{end - start} words are not a multiple of the n-gram length {length}"
            )
        grams = pool[start:end].reshape(-1, length)
        if len(np.unique(grams, axis=0)) < len(grams):
            raise op.invalid(f"duplicate n-grams of {length} words")
        if len(grams):
            yield length, grams


def _columns(op: OpContext, count: int) -> Array:
    """Return the column of the output for each n-gram."""
    columns = np.array(op.attr.integers("ngram_indexes") or (), np.int64)
    if len(columns) != count or not count or columns.min() < 0:
        raise op.invalid(f"expected {count} ngram_indexes, none below 0, got {len(columns)}")
    if len(np.unique(columns)) < count:
        raise op.unsupported("unsupported duplicate in ngram_indexes")
    return columns


def _counts(op: OpContext, texts: Tensor, pool: Array) -> Tensor:
    """Return each n-gram's count in each text, (n, n-grams), with or without skipped words."""
    (rows, words, _), (grams, length) = texts.shape, pool.shape
    steps = op.attr.integer("max_skip_count", 0) + 1 if length > 1 else 1
    steps = min(steps, (words - 1) // (length - 1)) if length > 1 else min(steps, words)
    if steps < 1:
        return _none(op, rows, grams)
    if steps * length > _MOST_COMPARISONS:
        raise op.unsupported(
            f"n-grams of {length} words with up to {steps - 1} left out take {steps * length} "
            f"comparisons; up to {_MOST_COMPARISONS} can be converted"
        )
    least, greatest = texts.dtype.stored_range()
    if pool.min() < least or pool.max() > greatest:
        raise op.invalid(f"words of the n-grams do not fit {texts.dtype.name}")
    found = [_matches(op, texts, pool, step) for step in range(1, steps + 1)]
    return reduce(add, found).tensor


def _matches(op: OpContext, texts: Tensor, pool: Array, step: int) -> Expr:
    """Return how often each n-gram, its words `step` apart, is in each text, (n, n-grams)."""
    (rows, words, _), length = texts.shape, pool.shape[1]
    places = words - (length - 1) * step
    equal = []
    for i in range(length):
        ranges = [(0, rows, 1), (i * step, i * step + places, 1), (0, 1, 1)]
        part = Expr(op, texts)
        if length > 1:
            part = part.step("StridedSlice", ranges=ranges)
        equal.append(part.equals(pool[None, None, :, i]))
    whole = reduce(and_, equal).cast(DType.FLOAT_32)
    return whole.step("ReduceSum", axes=(1,), keep_dims=False)


def _none(op: OpContext, rows: int, grams: int) -> Tensor:
    op.reserve_constant((rows, grams))
    return op.static("none", np.zeros((rows, grams), np.float32), DType.FLOAT_32)


def _weighted(op: OpContext, counts: Tensor, mode: str) -> Tensor:
    """Return counts, or weights of the n-grams found, or counts times weights."""
    grams = counts.shape[1]
    weights = np.array(op.attr.numbers("weights") or (1.0,) * grams)
    if len(weights) != grams:
        raise op.invalid(f"expected {grams} weights, one for each n-gram, got {len(weights)}")
    if mode == "TF":
        return counts
    found = Expr(op, counts)
    if mode == "TFIDF":
        return (found * weights[None]).tensor
    return where(found > 0, found.expr(weights[None]), 0).tensor


def _placed(op: OpContext, values: Tensor, columns: Array) -> Tensor:
    """Emit the values at their columns, with 0 where no n-gram has one."""
    (rows, grams), width = values.shape, int(columns.max()) + 1
    op.reserve_constant((2, width))  # of 64 bits
    places = np.full(width, grams)
    places[columns] = np.arange(grams)
    if width > grams:
        values = op.step("with_none", "Concat", [values, _none(op, rows, 1)], axis=1)
    index = op.static("places", places, DType.INT_32)
    if len(op.spec(0).shape) == 2:
        return op.emit("Gather", [values, index], axis=1)
    placed = op.step("placed", "Gather", [values, index], axis=1)
    return op.emit("Reshape", [placed], spec=Spec(placed.dtype, (width,)))
