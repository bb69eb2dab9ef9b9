"""The SDK's config file of the quantizer (`--config-file`): the section of AIMET's algorithms.

Each algorithm becomes ours of the same purpose. Data sets are code of the user that a file names;
it is not run, and the samples of the calibration are used instead.
Source: spec/configs.md, section 7.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from dovetail import typed
from dovetail.errors import ConfigError, Problem, suggest_name
from dovetail.files.config_text import read_yaml
from dovetail.quantization import QuantizationOptions

# Bitwidth and kind of activations or of weights.
Precision = tuple[Literal[4, 8, 16, 32], Literal["int", "float"]]


class Dataset(msgspec.Struct, forbid_unknown_fields=True):
    """A data set: a function that returns a loader, and its arguments."""

    dataloader_callback: str
    dataloader_kwargs: dict[str, Any] = {}


class AdaRound(msgspec.Struct, forbid_unknown_fields=True):
    """Adaptive rounding."""

    dataset: str
    num_batches: Annotated[int, Meta(ge=1)] | None = None


class MixedPrecision(msgspec.Struct, forbid_unknown_fields=True):
    """Automatic mixed precision; a candidate is of activations, then of weights."""

    dataset: str
    candidates: Annotated[list[tuple[Precision, Precision]], Meta(min_length=1)]
    allowed_accuracy_drop: float | None = None
    eval_callback_for_phase2: str | None = None


class Section(msgspec.Struct, forbid_unknown_fields=True):
    """The section `aimet_quantizer`."""

    datasets: dict[str, Dataset] = {}
    adaround: AdaRound | None = None
    amp: MixedPrecision | None = None


class _File(msgspec.Struct, forbid_unknown_fields=True):
    aimet_quantizer: Section


def with_config(options: QuantizationOptions) -> tuple[QuantizationOptions, list[str]]:
    """Return options with the algorithms of their config file, and notes on what it cannot set.

    The options' own algorithms come first, and their parameters take precedence.

    Raises:
        ConfigError: The file cannot be read or is wrong; all faults of its content are listed.
    """
    if options.config_file is None:
        return options, []
    path = Path(options.config_file)
    section = typed.convert(read_yaml(path), _File, where=str(path)).aimet_quantizer
    if problems := list(_faults(section, path)):
        raise ConfigError("invalid config file of the quantizer", problems=problems)
    algorithms, params = list(options.algorithms), dict(options.algorithm_params)
    for name, given in _algorithms(section):
        if name not in algorithms:
            algorithms.append(name)
        params[name] = given | params.get(name, {})
    made = msgspec.structs.replace(options, algorithms=tuple(algorithms), algorithm_params=params)
    return made, [f"{path}: {note}" for note in _notes(section)]


def _algorithms(section: Section) -> Iterator[tuple[str, dict[str, Any]]]:
    if section.amp is not None:
        texts = [_candidate(*each) for each in section.amp.candidates]
        yield "mixed-precision", {"candidates": ",".join(texts)}
    if section.adaround is not None:
        batches = section.adaround.num_batches
        yield "adaround", {} if batches is None else {"samples": batches}


def _candidate(activations: Precision, weights: Precision) -> str:
    if activations[1] == "float":
        return f"fp{activations[0]}"
    return f"w{weights[0]}a{activations[0]}"


def _faults(section: Section, path: Path) -> Iterator[Problem]:
    for name, algorithm in (("adaround", section.adaround), ("amp", section.amp)):
        if algorithm is not None and algorithm.dataset not in section.datasets:
            where = f"{path}: aimet_quantizer.{name}.dataset"
            hint = suggest_name(algorithm.dataset, section.datasets)
            yield Problem(f"data set '{algorithm.dataset}' not found", where, hint)
    for i, (activations, weights) in enumerate(section.amp.candidates if section.amp else ()):
        allowed = {("int", "int"): (8, 16), ("float", "float"): (16, 32)}
        kinds = activations[1], weights[1]
        if activations[0] not in allowed.get(kinds, ()) or (
            kinds == ("float", "float") and activations != weights
        ):
            yield Problem(
                f"unsupported precision {list(activations)} of activations, {list(weights)} of "
                "weights",
                f"{path}: aimet_quantizer.amp.candidates[{i}]",
                "both int, with 8 or 16 bits of activations, or both float and of the same width",
            )


def _notes(section: Section) -> Iterator[str]:
    if section.datasets:
        yield "data sets are not loaded: algorithms use the samples of the calibration"
    amp = section.amp
    if amp is not None and (amp.allowed_accuracy_drop is not None or amp.eval_callback_for_phase2):
        yield (
            "allowed_accuracy_drop and eval_callback_for_phase2 have no effect: set budget and "
            "metric of mixed-precision (--algorithm-param mixed-precision.budget=...)"
        )
