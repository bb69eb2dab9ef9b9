"""Conversion of samples to the stored arrays of a graph's inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

import numpy as np

from dovetail.errors import Problem, QuantizationError, suggest_name
from dovetail.ir import Array, DType, Graph, Tensor
from dovetail.ir.storage import as_numbers
from dovetail.ops import from_real, unstorable
from dovetail.quantization import Calibration

# Maximum number of problems to list.
_LISTED = 50


def is_repeatable(calibration: Calibration | None) -> TypeGuard[Calibration]:
    """Return whether there are samples that can be read again: more than an iterator's."""
    return calibration is not None and iter(calibration) is not calibration


def require_repeatable(
    calibration: Calibration | None,
    graph: Graph,
    purpose: str,
    *,
    hint: str = "pass the samples as a list",
) -> Calibration:
    """Return the samples of a graph, which can be read again.

    Args:
        calibration: The samples, if there are any.
        graph: The graph.
        purpose: What reads the samples, and why.
        hint: What to do if they cannot be read again.

    Raises:
        QuantizationError: There are no samples, or they can be read only once.
    """
    if is_repeatable(calibration):
        return calibration
    missing = "there are none" if calibration is None else "they can be read only once"
    raise QuantizationError(
        f"{purpose}, but {missing}",
        code="CALIBRATION_EMPTY",
        where=f"graph '{graph.name}'",
        hint=hint,
    )


def samples_of(graph: Graph, calibration: Calibration) -> Iterator[dict[str, Array]]:
    """Yield the inputs of each run, stored values by input name.

    Raises:
        QuantizationError: There is no sample, or some do not match; all of these are listed.
    """
    count = 0
    samples = iter(calibration)
    for count, sample in enumerate(samples, 1):
        problems: list[Problem] = []
        arrays = _arrays(graph, sample, count, problems)
        if problems:
            raise _mismatch(graph, problems, count, samples)
        yield arrays
    if count == 0:
        raise QuantizationError(
            "missing calibration samples",
            code="CALIBRATION_EMPTY",
            where=f"graph '{graph.name}'",
            hint="pass some dozen sets of typical inputs",
        )


def _mismatch(
    graph: Graph, problems: list[Problem], count: int, rest: Iterator[Any]
) -> QuantizationError:
    for sample in rest:
        count += 1
        _arrays(graph, sample, count, problems)
        if len(problems) > _LISTED:
            problems = [*problems[:_LISTED], Problem("more problems follow")]
            break
    return QuantizationError(
        "samples do not match the inputs of the graph",
        code="CALIBRATION_MISFIT",
        where=f"graph '{graph.name}'",
        problems=problems,
    )


def _arrays(graph: Graph, sample: Any, number: int, problems: list[Problem]) -> dict[str, Array]:
    where = f"sample {number}"
    tensors = {t.name: t for t in graph.inputs}
    if not isinstance(sample, Mapping):
        if len(tensors) != 1:
            listed = ", ".join(tensors)
            text = f"a bare array cannot serve the {len(tensors)} inputs: {listed}"
            problems.append(Problem(text, where, "pass a mapping from input names to arrays"))
            return {}
        sample = {next(iter(tensors)): sample}
    problems += [
        Problem(f"input '{name}' not found", where, suggest_name(str(name), tensors))
        for name in sample
        if name not in tensors
    ]
    found: dict[str, Array] = {}
    for name, tensor in tensors.items():
        if name not in sample:
            problems.append(Problem(f"missing input '{name}'", where))
        elif isinstance(array := _stored(sample[name], tensor), str):
            problems.append(Problem(f"input '{name}' {array}", where))
        else:
            found[name] = array
    return found


def _stored(value: Any, tensor: Tensor) -> Array | str:
    """Return the stored values of an input, or the reason why the values do not match."""
    try:
        array = as_numbers(value)
    except ValueError:  # rows of different lengths
        return f"is a {type(value).__name__} that cannot become an array"
    if array.dtype == object:
        return f"holds {type(array.flat[0] if array.size else value).__name__}, not numbers"
    if array.shape != tensor.shape and not _is_element(array.shape, tensor.shape):
        return f"has shape {array.shape}; expected {tensor.shape}"
    if array.dtype.kind not in "fiub":
        return f"holds {array.dtype}, not numbers"
    array = array.reshape(tensor.shape)
    is_whole = tensor.dtype.is_int or tensor.dtype is DType.BOOL_8
    if is_whole and (wrong := unstorable(array, tensor.dtype)).any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        return f"holds {array[at]} at {at}, which {tensor.dtype.name} cannot"
    if array.dtype.kind == "f" and np.isnan(array).any():
        return "holds NaN"  # the observer rejects infinities, or lets them pass
    return np.asarray(from_real(array, tensor.spec), order="C")  # of rank 0 too


def _is_element(shape: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Return whether a shape lacks only the first axis, of size 1."""
    return whole[:1] == (1,) and shape == whole[1:]
