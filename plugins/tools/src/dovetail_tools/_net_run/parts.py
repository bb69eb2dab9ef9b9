"""The parts of an inference: its inputs and outputs have a multiple of the graph's batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from dovetail.errors import Problem
from dovetail.ir import Array, Tensor
from dovetail.ir.copying import copy_tensor


def multiplied(tensors: Iterable[Tensor], factor: int) -> tuple[dict[str, Tensor], list[Problem]]:
    """Return tensors whose leading axis is longer, by name, and the faults of those without one.

    Args:
        tensors: Inputs and outputs of a graph; they are not changed.
        factor: Factor of the size of the leading axis.
    """
    found: dict[str, Tensor] = {}
    problems: list[Problem] = []
    for tensor in tensors:
        found[tensor.name] = tensor
        if factor == 1:
            continue
        reason = _reason_against(tensor, factor)
        if reason:
            message = f"the batch of tensor '{tensor.name}' cannot be multiplied: {reason}"
            problems.append(Problem(message, f"--batch-multiplier {factor}"))
            continue
        found[tensor.name] = copy_tensor(tensor)
        found[tensor.name].shape = (tensor.shape[0] * factor, *tensor.shape[1:])
    return found, problems


def split_parts(arrays: Mapping[str, Array], parts: int) -> tuple[dict[str, Array], ...]:
    """Return equal parts of the leading axis of arrays, as views.

    Args:
        arrays: Arrays by name.
        parts: Number of parts.
    """
    if parts == 1:  # the arrays may have no axis
        return (dict(arrays),)
    pieces = {name: np.split(array, parts) for name, array in arrays.items()}
    return tuple({name: piece[i] for name, piece in pieces.items()} for i in range(parts))


def _reason_against(tensor: Tensor, factor: int) -> str:
    if not tensor.shape:
        return "a scalar has no axis"
    longer = (tensor.shape[0] * factor, *tensor.shape[1:])
    faults = [] if tensor.encoding is None else tensor.encoding.faults(longer, tensor.dtype)
    return faults[0] if faults else ""
