"""Outputs whose number of rows is known only at run time: declared size, rows, then 0."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.errors import OpError
from dovetail.ir import Array, Spec


def declared_rows(outs: Sequence[Spec | None], what: str, *, axis: int = 0) -> int:
    """Return the declared size for results whose number is known only at run time.

    Args:
        outs: The outputs that hold one row for each result.
        what: Name of the results, for the error.
        axis: The axis of this size in the outputs' shapes.

    Raises:
        OpError: No output is declared, or the first declared one has no such axis.
    """
    declared = next((s for s in outs if s is not None), None)
    if declared is None:
        raise OpError(
            f"the number of {what} is known only at run time",
            hint="declare the shapes of the outputs, for the largest possible number",
        )
    if len(declared.shape) <= axis:
        raise OpError(
            f"an output of {what} must have axis {axis}, but its shape is declared {declared.shape}"
        )
    return declared.shape[axis]


def filled(values: Array, rows: int, what: str) -> Array:
    """Return (n, ...) as (rows, ...), 0 after the n.

    Raises:
        OpError: There are more than the graph declares.
    """
    if len(values) > rows:
        raise OpError(
            f"there are {len(values)} {what}, but the outputs are declared for {rows}",
            hint="declare the outputs for the largest possible number, or lower a limit of the op",
        )
    result = np.zeros((rows, *values.shape[1:]), values.dtype)
    result[: len(values)] = values
    return result


def stacked(images: Sequence[Sequence[Array]], outs: Sequence[Spec]) -> tuple[Array, ...]:
    """Return each image's results (k, ...) as (n, m, ...), 0 after the k.

    Args:
        images: For each of n images, the results for each output.
        outs: The outputs' specs, (n, m, ...).
    """
    found = []
    for i, spec in enumerate(outs):
        kinds = [image[i].dtype for image in images] or [np.dtype(np.float32)]
        result = np.zeros(spec.shape, np.result_type(*kinds))
        for row, image in zip(result, images, strict=True):
            row[: len(image[i])] = image[i]
        found.append(result)
    return tuple(found)
