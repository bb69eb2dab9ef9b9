"""Einsum: transposes, sums and matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.ir import Spec, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx.operators._table import ONNX
from dovetail_opset.importing.layout import reshaped

# Labels of the axes of an ellipsis: digits, which no equation has.
_REST = "0123456789"


@dataclass(frozen=True, slots=True)
class _Term:
    """A tensor whose axes have labels, each at most once."""

    tensor: Tensor
    labels: str

    def extent(self, label: str) -> int:
        """Return the size of an axis."""
        return self.tensor.shape[self.labels.index(label)]


@ONNX.importer("Einsum", versions=(12, 28))
def einsum(op: OpContext) -> Tensor:
    """Multiply two terms at a time by MatMul; sum each label as soon as nothing needs it."""
    inputs, output = _labels(op)
    terms = [_term(op, i, labels) for i, labels in enumerate(inputs)]
    result = _summed(op, terms[0], _needed(terms[1:], output))
    for i, term in enumerate(terms[1:], 1):
        needed = _needed(terms[i + 1 :], output)
        right = _summed(op, term, needed | set(result.labels))
        left = _summed(op, result, needed | set(right.labels))
        result = _product(op, left, right, needed)
    result = _summed(op, result, set(output))
    order = tuple(result.labels.index(label) for label in output)
    return op.emit("Transpose", [result.tensor], perm=order)


def _labels(op: OpContext) -> tuple[list[str], str]:
    """Return the labels of inputs and output, including those of an ellipsis."""
    equation = "".join(op.attr.text("equation", "").split())
    left, arrow, right = equation.partition("->")
    inputs = left.split(",")
    if len(inputs) != op.count:
        raise op.invalid(f"equation '{equation}' does not match {op.count} inputs")
    written, rest = [], ""
    for i, labels in enumerate(inputs):
        axes = len(op.spec(i).shape) - len(labels.replace("...", ""))
        wrong = labels.replace("...", "", 1)
        if axes < 0 or axes > len(_REST) or (axes > 0 and wrong == labels) or not _plain(wrong):
            raise op.invalid(f"equation '{equation}' does not match the input {op.spec(i).shape}")
        # an ellipsis is aligned at its end
        own = _REST[len(_REST) - axes :]
        rest = max(rest, own, key=len)
        written.append(labels.replace("...", own))
    if not arrow:
        text = "".join(written)
        right = "..." + "".join(sorted(c for c in set(text) - set(_REST) if text.count(c) == 1))
    output = right.replace("...", rest, 1)
    if len(set(output)) < len(output) or not set(output) <= set("".join(written)):
        raise op.invalid(f"equation '{equation}' has an invalid output")
    return written, output


def _plain(labels: str) -> bool:
    return labels == "" or (labels.isascii() and labels.isalpha())


def _needed(terms: Sequence[_Term], output: str) -> set[str]:
    return set(output).union(*(term.labels for term in terms))


def _term(op: OpContext, i: int, labels: str) -> _Term:
    """Return the diagonal of an input for labels that occur twice."""
    x = op.tensor(i)
    while (twice := next((c for c in labels if labels.count(c) > 1), "")) != "":
        first, second = labels.index(twice), labels.rindex(twice)
        extent, others = x.shape[first], [a for a in range(len(labels)) if a not in (first, second)]
        if x.shape[second] != extent:
            raise op.invalid(f"the sizes of '{twice}' differ in the input {x.shape}")
        last = op.step("last", "Transpose", [x], perm=(*others, first, second))
        kept = tuple(x.shape[a] for a in others)
        flat = reshaped(op, "flat", last, (*kept, extent * extent))
        ranges = [*((0, n, 1) for n in kept), (0, extent * extent, extent + 1)]
        x = op.step("diagonal", "StridedSlice", [flat], ranges=ranges)
        labels = "".join(labels[a] for a in others) + twice
    return _Term(x, labels)


def _summed(op: OpContext, term: _Term, kept: set[str]) -> _Term:
    """Return a term summed over the labels that are not kept."""
    axes = [a for a, label in enumerate(term.labels) if label not in kept]
    if not axes:
        return term
    total = op.step("sum", "ReduceSum", [term.tensor], axes=axes, keep_dims=False)
    return _Term(total, "".join(label for label in term.labels if label in kept))


def _product(op: OpContext, a: _Term, b: _Term, needed: set[str]) -> _Term:
    """Return the product of two terms, summed over the labels of both that are not needed."""
    both = [label for label in a.labels if label in b.labels]
    batch = [label for label in both if label in needed]
    inner = [label for label in both if label not in needed]
    rows = [label for label in a.labels if label not in both]
    columns = [label for label in b.labels if label not in both]
    for label in inner:
        if a.extent(label) != b.extent(label):
            if 1 not in (a.extent(label), b.extent(label)):
                raise op.invalid(f"the sizes of '{label}' differ")
            # the broadcast term is not summed
            spread, other = (a, b) if a.extent(label) == 1 else (b, a)
            reduced = _summed(op, other, set(other.labels) - {label})
            squeezed = _summed(op, spread, set(spread.labels) - {label})
            pair = (squeezed, reduced) if spread is a else (reduced, squeezed)
            return _product(op, *pair, needed)
    left = _matrix(op, a, batch, rows, inner)
    right = _matrix(op, b, batch, inner, columns)
    product = op.step("product", "MatMul", [left, right])
    extents = (
        *product.shape[: len(batch)],
        *(a.extent(label) for label in rows),
        *(b.extent(label) for label in columns),
    )
    return _Term(reshaped(op, "apart", product, extents), "".join((*batch, *rows, *columns)))


def _matrix(
    op: OpContext, term: _Term, batch: list[str], rows: list[str], columns: list[str]
) -> Tensor:
    """Return a term as matrices, (batch..., rows, columns)."""
    order = tuple(term.labels.index(label) for label in (*batch, *rows, *columns))
    x = term.tensor
    if order != tuple(range(len(order))):
        x = op.step("ordered", "Transpose", [x], perm=order)
    shape = (
        *x.shape[: len(batch)],
        math.prod(term.extent(label) for label in rows),
        math.prod(term.extent(label) for label in columns),
    )
    return x if x.shape == shape else op.step("matrix", "Reshape", [x], spec=Spec(x.dtype, shape))
