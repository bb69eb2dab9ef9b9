"""Permutations of axes: axis k of a transposed tensor is axis perm[k] of the tensor before."""

from __future__ import annotations

from dovetail.ir import Node, Shape, Tensor


def inverse(perm: Shape) -> Shape:
    """Return the perm that undoes `perm`."""
    return tuple(perm.index(i) for i in range(len(perm)))


def composed(first: Shape, second: Shape) -> Shape:
    """Return the one perm for a transpose by `first`, then by `second`."""
    return tuple(first[i] for i in second)


def is_identity(perm: Shape) -> bool:
    """Return whether a permutation is the identity."""
    return perm == tuple(range(len(perm)))


def to_last(rank: int) -> Shape:
    """Return the perm from channels-first, (n, c, ...), to channels-last, (n, ..., c)."""
    return (0, *range(2, rank), 1)


def to_first(rank: int) -> Shape:
    """Return the perm from channels-last, (n, ..., c), to channels-first, (n, c, ...)."""
    return (0, rank - 1, *range(1, rank - 1))


def is_to_last(perm: Shape) -> bool:
    """Return whether a perm leads from channels-first to channels-last."""
    return len(perm) > 2 and perm == to_last(len(perm))


def is_to_first(perm: Shape) -> bool:
    """Return whether a perm leads from channels-last to channels-first."""
    return len(perm) > 2 and perm == to_first(len(perm))


def perm_of(node: Node) -> Shape:
    """Return the perm of a Transpose node."""
    param = node.params["perm"]
    if not isinstance(param, Tensor):
        raise AssertionError(f"{node.where}: perm is not a tensor")
    return tuple(param.values().tolist())


def from_source(tensor: Tensor) -> Shape:
    """Return the perm from the layout of a tensor in the user's model to its own."""
    return tuple(range(len(tensor.shape))) if tensor.source_perm is None else tensor.source_perm


def to_source(tensor: Tensor) -> Shape:
    """Return the perm from the layout of a tensor to that in the user's model."""
    return inverse(from_source(tensor))
