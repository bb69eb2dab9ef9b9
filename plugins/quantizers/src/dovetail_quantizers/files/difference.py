"""Differences of two encodings files of any versions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail_quantizers.files._arrange import flat
from dovetail_quantizers.files.form import EncodingsFile, Floats, TensorEncoding


@dataclass(frozen=True, slots=True)
class Difference:
    """Differences of a second file from a first.

    Attributes:
        added: Tensors that only the second has.
        removed: Tensors that only the first has.
        changed: Differences by tensor.
        same: Number of entries with the same meaning.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: dict[str, tuple[str, ...]]
    same: int

    @property
    def is_none(self) -> bool:
        """True if the files have the same meaning."""
        return not (self.added or self.removed or self.changed)


def difference(first: EncodingsFile, second: EncodingsFile, rtol: float = 0.0) -> Difference:
    """Compare two files by the meaning of their entries.

    Args:
        first: A file.
        second: Another file, of any version.
        rtol: Maximum relative difference of scales that counts as equal.
    """
    common = [name for name in first.entries if name in second.entries]
    changed = {}
    for name in common:
        if found := changes(first.entries[name], second.entries[name], rtol):
            changed[name] = tuple(found)
    return Difference(
        tuple(name for name in second.entries if name not in first.entries),
        tuple(name for name in first.entries if name not in second.entries),
        changed,
        len(common) - len(changed),
    )


def changes(first: TensorEncoding, second: TensorEncoding, rtol: float) -> list[str]:
    """Return the differences in the meaning of two entries."""
    if first.kind != second.kind or first.bitwidth != second.bitwidth:
        return [f"{first.kind}{first.bitwidth} became {second.kind}{second.bitwidth}"]
    first, second = flat(first) or first, flat(second) or second
    if (found := _forms(first, second)) or first.scales is None or second.scales is None:
        return found
    apart = _relative(first.scales.ravel(), second.scales.ravel())
    if apart.max() > rtol:
        i = int(apart.argmax())
        a, b = first.scales.ravel()[i].item(), second.scales.ravel()[i].item()
        where = f" {i}" if apart.size > 1 else ""
        found.append(f"scale{where} {a!r} became {b!r} (relative {apart[i]:.3g})")
    for what, a, b in (
        ("offset", first.offsets, second.offsets),
        ("factor", first.block_scales, second.block_scales),
        ("shift", first.zero_point_shift, second.zero_point_shift),
    ):
        one, other = (np.zeros(1) if n is None else np.ravel(n) for n in (a, b))
        if one.size != other.size:
            found.append(f"{one.size} {what}s became {other.size}")
        elif np.any(unequal := one != other):
            i = int(unequal.argmax())
            found.append(f"{what} {i} {one[i].item()!r} became {other[i].item()!r}")
    return found


def _forms(first: TensorEncoding, second: TensorEncoding) -> list[str]:
    if (first.scales is None) != (second.scales is None):
        said = ("nothing", "a scale")
        return [f"{said[first.scales is not None]} became {said[second.scales is not None]}"]
    if first.scales is None or second.scales is None:
        return []
    found = []
    one = first.scales.size == second.scales.size == 1  # a single channel is the whole tensor
    if first.form is not second.form and not one:
        found.append(f"{first.form.value} became {second.form.value}")
    if first.scales.size != second.scales.size:
        found.append(f"{first.scales.size} scales became {second.scales.size}")
    for key in ("axis", "block_size", "compressed_bitwidth"):
        a, b = getattr(first, key), getattr(second, key)
        if a != b and a is not None and b is not None and not one:
            found.append(f"{key} {a} became {b}")
    return found


def _relative(first: Floats, second: Floats) -> Floats:
    maximum = np.maximum(np.abs(first), np.abs(second))
    return np.abs(first - second) / np.where(maximum == 0, 1, maximum)
