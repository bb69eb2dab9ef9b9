"""Differences between two tensors of the same name: values, types, shapes and encodings."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from typing import Any, cast

import msgspec
import numpy as np

from dovetail.ir import Array, DataFormat, DType, Encoding, Spec, Tensor, dequantize, dims_text

VALUES = "values"
_PIECE = 1 << 16  # elements at a time, as float64
_PLURALS = {"scale": "scales", "offset": "offsets"}  # of one scale or of many


class Difference(msgspec.Struct, frozen=True):
    """A fact in which two tensors differ.

    Attributes:
        fact: values, dtype, shape, data format, or of the encodings: encoding (the class),
            bitwidth, symmetry, scales, offsets, axis and others of its attributes.
        first: Its value in the first tensor.
        second: Its value in the second one.
    """

    fact: str
    first: str
    second: str

    def __str__(self) -> str:
        return self.fact if self.fact == VALUES else f"{self.fact} {self.first} / {self.second}"


def differences(first: Tensor, second: Tensor) -> tuple[Difference, ...]:
    """Return the facts in which two tensors with data differ; none if they can share a blob.

    Values are compared by their hashes, which are shown.
    """
    return tuple(_differences(first, second))


def form_differences(first: Tensor, second: Tensor) -> tuple[Difference, ...]:
    """Return the facts in which two tensors differ besides their values; no data are read."""
    return tuple(_form_differences(first, second))


def cosine_similarity(first: Tensor, second: Tensor) -> float | None:
    """Return the cosine of the angle between the real values of two tensors.

    Two tensors of zeros have the cosine 1, a tensor of zeros and another one 0.

    Returns:
        None if the tensors have different numbers of elements, have no numbers, or have infinite
        ones.
    """
    found = compare_values(first, second)
    return None if found is None else found.cosine


class ValueComparison(msgspec.Struct, frozen=True):
    """The real values of two tensors with the same number of elements.

    Attributes:
        max_abs: Largest absolute difference; NaN if only one of two values is NaN.
        is_close: Whether all differences are within the tolerance.
        cosine: Cosine of the angle between them, as `cosine_similarity` returns it.
    """

    max_abs: float
    is_close: bool
    cosine: float | None


def compare_values(
    first: Tensor, second: Tensor, *, rtol: float = 0.0, atol: float = 0.0
) -> ValueComparison | None:
    """Compare the real values of two tensors with data.

    A difference is within the tolerance if it is at most `atol + rtol * abs(second)`. Equal
    infinite values and two NaN do not differ.

    Returns:
        None if the tensors have different numbers of elements, or have no numbers.
    """
    if not (_has_numbers(first) and _has_numbers(second)):
        return None
    one, other = _real(first).reshape(-1), _real(second).reshape(-1)
    if one.size != other.size:
        return None
    squares, others, product, max_abs, is_close = 0.0, 0.0, 0.0, 0.0, True
    with np.errstate(all="ignore"):  # the result shows overflows
        for start in range(0, one.size, _PIECE):
            a = one[start : start + _PIECE].astype(np.float64)
            b = other[start : start + _PIECE].astype(np.float64)
            squares += float(a @ a)
            others += float(b @ b)
            product += float(a @ b)
            apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
            max_abs = float(np.maximum(max_abs, apart.max()))  # NaN remains
            within = np.isfinite(apart) & (apart <= atol + rtol * np.abs(b))
            is_close = is_close and bool(np.all((apart == 0) | within))
    return ValueComparison(max_abs, is_close, _cosine(squares, others, product))


def _cosine(squares: float, others: float, product: float) -> float | None:
    if not squares or not others:
        return float(squares == others)
    found = product / (math.sqrt(squares) * math.sqrt(others))
    return max(-1.0, min(1.0, found)) if math.isfinite(found) else None


def md5_of(tensor: Tensor) -> str:
    """Return the MD5 of a tensor's stored bytes, as tools for files show it."""
    data = b"" if tensor.data is None else tensor.data.bytes.data
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _differences(first: Tensor, second: Tensor) -> Iterator[Difference]:
    if first.data is None or second.data is None:
        raise ValueError(f"tensor {first.name} has no data")
    if first.data.hash != second.data.hash:
        yield Difference(VALUES, first.data.hash, second.data.hash)
    yield from _form_differences(first, second)


def _form_differences(first: Tensor, second: Tensor) -> Iterator[Difference]:
    for fact, (one, other) in {
        "dtype": (first.dtype.name, second.dtype.name),
        "shape": (dims_text(first.shape), dims_text(second.shape)),
        "data format": (first.data_format.name, second.data_format.name),
    }.items():
        if one != other:
            yield Difference(fact, one, other)
    if first.encoding != second.encoding:
        one_facts, other_facts = _encoding_facts(first.spec), _encoding_facts(second.spec)
        for fact in one_facts | other_facts:
            one, other = one_facts.get(fact, "none"), other_facts.get(fact, "none")
            if one != other:
                yield Difference(fact, one, other)


def _encoding_facts(spec: Spec) -> dict[str, str]:
    """Return the facts of an encoding as text."""
    encoding = spec.encoding
    if encoding is None:
        return {"encoding": "none"}
    values = dict(_attributes(encoding))
    bitwidth = values.pop("bitwidth", None)
    offsets = values.get("offsets")
    low, high = spec.dtype.stored_range(bitwidth)
    middle = -((low + high + 1) // 2)
    is_symmetric = bool(np.all(np.equal(0 if offsets is None else offsets, middle)))
    return {
        "encoding": type(encoding).__name__,
        "bitwidth": str(bitwidth or spec.dtype.bits),
        "symmetry": "yes" if is_symmetric else "no",
        **{name: _text(value) for name, value in values.items()},
    }


def _attributes(encoding: Encoding) -> Iterator[tuple[str, Any]]:
    """Yield names and values of the attributes of an encoding, and of that which it is based on."""
    for name in cast("msgspec.Struct", encoding).__struct_fields__:
        value = getattr(encoding, name)
        if name == "base":
            yield from _attributes(value)
        else:
            yield _PLURALS.get(name, name), value


def _text(value: object) -> str:
    """Return a value as text; for an array its limits, shape and a digest.

    None is offsets that are all 0.
    """
    if not isinstance(value, np.ndarray):
        return "0" if value is None else getattr(value, "name", None) or str(value)
    digest = hashlib.sha256(np.ascontiguousarray(value).data).hexdigest()[:8]
    shape = "x".join(map(str, value.shape))
    limits = f"{value.min()}..{value.max()} " if value.size else ""
    return f"{limits}({shape}, {digest})"


def _has_numbers(tensor: Tensor) -> bool:
    if tensor.data is None or tensor.dtype is DType.STRING:
        return False
    is_whole = tensor.data.nbytes == tensor.spec.nbytes
    is_dense = is_whole and tensor.data_format is DataFormat.DENSE
    return is_dense and (tensor.encoding is None or tensor.encoding.is_convertible)


def _real(tensor: Tensor) -> Array:
    """Return the real values of a tensor."""
    if tensor.encoding is None:
        return tensor.values()
    return dequantize(tensor.values(), tensor.encoding)
