"""Cases of matrix products and tables with weights of a few bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from microsoft_cases._case import F32, Case, Known, case


def _made(
    rng: np.random.Generator, units: int, inputs: int, block: int, bits: int
) -> tuple[Known, Known, Known, dict[str, Any]]:
    blocks = -(-inputs // block)
    weights = rng.integers(0, 256, (units, blocks, block * bits // 8), np.uint8)
    scales = rng.uniform(0.01, 0.1, (units, blocks)).astype(F32)
    zeros = rng.integers(0, 256, (units, -(-blocks * bits // 8)), np.uint8)
    attributes = {"N": units, "K": inputs, "block_size": block, "bits": bits}
    return Known(weights), Known(scales), Known(zeros), attributes


def cases() -> Iterator[Case]:
    """Return the cases."""
    rng = np.random.default_rng(3)
    for bits in (2, 4, 8):
        for units, inputs, block in ((5, 48, 16), (3, 70, 32), (4, 20, 64)):
            weights, scales, zeros, attributes = _made(rng, units, inputs, block, bits)
            x = rng.normal(size=(2, 3, inputs)).astype(F32)
            about = f"{bits} bits, {inputs} rows in blocks of {block}"
            yield case("MatMulNBits", about, [x, weights, scales], **attributes)
            given = [x, weights, scales, zeros]
            yield case("MatMulNBits", f"{about}, zero points", given, **attributes)
    weights, scales, zeros, attributes = _made(rng, 6, 64, 16, 4)
    x, bias = rng.normal(size=(3, 64)).astype(F32), Known(rng.normal(size=6).astype(F32))
    yield case("MatMulNBits", "a bias", [x, weights, scales, None, None, bias], **attributes)
    real = Known(rng.uniform(6, 9, (6, 4)).astype(F32))
    yield case("MatMulNBits", "zero points that are real", [x, weights, scales, real], **attributes)
    flat = [Known(v.values.reshape(-1)) for v in (scales, zeros)]
    yield case("MatMulNBits", "flat scales and zero points", [x, weights, *flat], **attributes)
    yield from _tables(rng)


def _tables(rng: np.random.Generator) -> Iterator[Case]:
    name, indices = "GatherBlockQuantized", np.array([[3, 0], [4, -1]], np.int64)
    for bits, block in ((4, 16), (8, 32), (4, 32)):
        table = Known(rng.integers(0, 256, (5, 96 * bits // 8), np.uint8))
        scales = Known(rng.uniform(0.01, 0.1, (5, 96 // block)).astype(F32))
        zeros = Known(rng.integers(0, 256, (5, -(-96 * bits // 8 // block)), np.uint8))
        how = {"bits": bits, "block_size": block}
        about = f"{bits} bits, blocks of {block}"
        yield case(name, about, [table, indices, scales], **how)
        yield case(name, f"{about}, zero points", [table, indices, scales, zeros], **how)
    factors = Known(rng.uniform(0.01, 0.1, (5, 2, 6)).astype(F32))
    for dtype in (ml_dtypes.int4, ml_dtypes.uint4):
        table, points = (Known(rng.integers(0, 8, (5, n, 6)).astype(dtype)) for n in (32, 2))
        how = {"gather_axis": 2, "quantize_axis": 1, "block_size": 16}
        given = [table, indices, factors]
        yield case(name, f"{dtype.__name__} across", given, **how)
        yield case(name, f"{dtype.__name__}, zero points", [*given, points], **how)
