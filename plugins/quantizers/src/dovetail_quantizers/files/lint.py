"""Checks of an encodings file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dovetail.errors import Problem, QuantizationError
from dovetail.ir import Graph, Tensor
from dovetail.ops import OpRegistry
from dovetail.quantization import Bias
from dovetail_quantizers.files import _numbers
from dovetail_quantizers.files.coverage import coverage_of
from dovetail_quantizers.files.form import EncodingsFile, Floats, Form, TensorEncoding
from dovetail_quantizers.files.model_tensors import ModelTensors
from dovetail_quantizers.files.to_graph import to_encoding
from dovetail_quantizers.grid import MINIMUM_RANGE
from dovetail_quantizers.planning.roles import roles_of

# Text has 7 digits of a float32 range: an error of at most some hundredths of a 16-bit step.
_STEPS_OFF = 0.05
_HUGE_RANGE = 1e10
# Bias scales are products of two rounded numbers; files with 4 digits are acceptable.
_BIAS_RTOL = 1e-3

Level = Literal["fault", "smell", "note"]


@dataclass(frozen=True, slots=True)
class Remark:
    """One finding in a file.

    Attributes:
        level: A fault cannot be read or used, a smell is probably a mistake, a note is information.
        rule: The check that found it.
        problem: The message, location and hint.
    """

    level: Level
    rule: str
    problem: Problem


def lint(
    file: EncodingsFile, faults: Iterable[Problem], model: ModelTensors | None = None
) -> list[Remark]:
    """Return all findings: faults first, then smells, then notes.

    Args:
        file: The entries that could be read.
        faults: Faults of reading.
        model: The model of the file.
    """
    found = [Remark("fault", "format", problem) for problem in faults]
    found += [Remark("note", "reading", problem) for problem in file.notes]
    for entry in file.entries.values():
        found += _of_entry(entry)
    if model is not None:
        found += _against_model(file, model)
    order = ("fault", "smell", "note")
    return sorted(found, key=lambda remark: order.index(remark.level))


def _of_entry(entry: TensorEncoding) -> Iterator[Remark]:
    scales, offsets = entry.scales, entry.offsets
    if entry.is_open:
        yield _note(entry, "no-range", "without scale and range: calibration chooses them")
    if scales is None or offsets is None:
        return
    if entry.is_derived:
        yield _note(entry, "derived", "scales of 0: they are derived from other tensors")
        return
    if entry.form is not Form.PER_TENSOR and not entry.is_centered:
        text = f"{entry.form.value} encodings are not symmetric, which backends require"
        yield _smell(entry, "asymmetric-per-channel", text, f"every offset {entry.center}")
    elif entry.symmetric and not (entry.is_centered or _is_strict(entry)) and np.any(offsets):
        text = f"symmetric, but with the offset {int(offsets)}"
        yield _smell(entry, "symmetric-offset", text, f"{entry.center} is the symmetric one")
    spans = scales * entry.steps
    if np.any(tiny := spans < MINIMUM_RANGE * (1 - 1e-6)):
        text = f"{_count(tiny)} with a range below {MINIMUM_RANGE}, down to {spans.min():.3g}"
        yield _smell(entry, "range-tiny", text, "constants and dead channels look like this")
    if np.any(huge := spans > _HUGE_RANGE):
        text = f"{_count(huge)} with a range of up to {spans.max():.3g}"
        yield _smell(entry, "range-huge", text, "check the calibration for overflow")
    yield from _of_range(entry, scales)


def _of_range(entry: TensorEncoding, scales: Floats) -> Iterator[Remark]:
    if entry.minimum is None or entry.maximum is None or entry.offsets is None:
        return
    zeros = entry.minimum / scales
    if np.any(off := np.abs(zeros - np.rint(zeros)) > _STEPS_OFF):
        text = f"{_count(off)} with a range on which zero is not a point of the grid"
        yield _smell(entry, "zero-not-representable", text, "min should be a multiple of the scale")
    ranges = (entry.minimum, entry.maximum)
    apart = _numbers.steps_apart(scales, entry.offsets, entry.bitwidth, ranges)
    if entry.is_centered:  # a symmetric range may leave out the lowest step
        ranges = (entry.minimum - scales, entry.maximum)
        strict = _numbers.steps_apart(scales, entry.offsets, entry.bitwidth, ranges)
        apart = np.minimum(apart, strict)
    if np.any(off := apart > _STEPS_OFF):
        text = f"{_count(off)} with min and max up to {apart.max():.3g} steps from scale and offset"
        yield _smell(entry, "range-mismatch", text, "scale and offset are used")


def _against_model(file: EncodingsFile, model: ModelTensors) -> Iterator[Remark]:
    covered = coverage_of(file, model)
    for problem in covered.unmatched:
        yield Remark("fault", "unknown-tensor", problem)
    for name in covered.removed_sources:
        text = "the conversion does away with this tensor"
        yield Remark("note", "tensor-gone", Problem(text, f"'{name}'"))
    for name, entry in file.entries.items():
        named = model.find(name)
        if named is None or entry.scales is None or entry.is_derived:
            continue
        try:
            to_encoding(entry, named.tensor, named.axis)
        except QuantizationError as error:
            problem = error.as_problem(f"'{name}'")
            yield Remark("fault", "misfit", problem)
    for graph in model.graphs:
        yield from _biases(file, graph, model.ops)


def _biases(file: EncodingsFile, graph: Graph, ops: OpRegistry) -> Iterator[Remark]:
    for node in graph.nodes:
        for i, role in roles_of(node, ops).items():
            if not isinstance(role, Bias) or role.data is None or role.weight is None:
                continue
            numbers = (role.data, role.weight, i)
            if max(numbers) < len(node.inputs):
                x, weight, bias = (_entry_of(file, node.inputs[n]) for n in numbers)
                if x is not None and weight is not None and bias is not None:
                    yield from _bias(x, weight, bias, node.where)


def _bias(
    x: TensorEncoding, weight: TensorEncoding, bias: TensorEncoding, where: str
) -> Iterator[Remark]:
    if x.scales is None or weight.scales is None or bias.scales is None or bias.bitwidth != 32:
        return
    if bias.is_derived or weight.is_derived or weight.form.is_blocked or x.scales.size > 1:
        return
    hint = f"the bias of {where}"
    wanted, given = (x.scales * weight.scales).ravel(), bias.scales.ravel()
    if given.size not in (1, wanted.size):
        text = f"{given.size} scales for a weight with {wanted.size}"
        yield _smell(bias, "bias-scale", text, hint)
        return
    apart = float(np.max(np.abs(given - wanted) / wanted))
    if apart > _BIAS_RTOL:
        text = f"scale differs by up to {apart:.3g} from input scale x weight scale"
        yield _smell(bias, "bias-scale", text, hint)


def _entry_of(file: EncodingsFile, tensor: Tensor | None) -> TensorEncoding | None:
    if tensor is None:
        return None
    entry = file.entries.get(tensor.name) or file.entries.get(tensor.source)
    return entry if entry is not None and entry.kind == "int" else None


def _is_strict(entry: TensorEncoding) -> bool:
    return entry.offsets is not None and bool(np.all(entry.offsets == entry.center + 1))


def _count(which: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> str:
    return f"{np.count_nonzero(which)} of {which.size} encodings"


def _smell(entry: TensorEncoding, rule: str, text: str, hint: str) -> Remark:
    return Remark("smell", rule, Problem(text, f"'{entry.name}'", hint))


def _note(entry: TensorEncoding, rule: str, text: str) -> Remark:
    return Remark("note", rule, Problem(text, f"'{entry.name}'"))
