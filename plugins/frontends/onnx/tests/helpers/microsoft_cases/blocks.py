"""Cases of matrix products with weights of a few bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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
