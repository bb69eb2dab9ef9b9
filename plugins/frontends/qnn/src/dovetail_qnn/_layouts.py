"""Names of layouts, which say how a tensor was transposed since the source model."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.ir import Shape

# The layout, that of the source model, and the permutation from there.
_PERMUTATIONS: Mapping[tuple[str, str], Shape] = {
    ("NFC", "NCF"): (0, 2, 1),
    ("NHWC", "NCHW"): (0, 2, 3, 1),
    ("NDHWC", "NCDHW"): (0, 2, 3, 4, 1),
    ("HWIO", "OIHW"): (2, 3, 1, 0),
    ("HWIO", "IOHW"): (2, 3, 0, 1),
    ("DHWIO", "OIDHW"): (2, 3, 4, 1, 0),
    ("DHWIO", "IODHW"): (2, 3, 4, 0, 1),
}
_NAMES = {perm: names for names, perm in _PERMUTATIONS.items()}


def layouts_of(perm: Shape | None, *, static: bool) -> tuple[str, str]:
    """Return the names of the layouts of a tensor and of its source."""
    kept = ("ANY", "ANY") if static else ("NONTRIVIAL", "NONTRIVIAL")
    return kept if perm is None else _NAMES.get(perm, kept)


def permutation_of(layout: str, source: str) -> Shape | None:
    """Return the permutation between two layouts; None if they do not say one."""
    return _PERMUTATIONS.get((layout, source))
