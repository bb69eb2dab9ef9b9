"""The contract of a quantizer: a float model and samples in, a fixed-point model and a report out.

A quantizer is an entry point of `dovetail.quantizers` that loads a class; `dovetail.quantize` takes
the one named `default`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from dovetail.container import Model
from dovetail.ops import OpRegistry
from dovetail.quantization.options import QuantizationOptions
from dovetail.quantization.report import QuantizationReport

# One set of inputs: arrays by input name, or one array for a graph with one input.
Sample = Mapping[str, Any] | Any
# Sets of inputs, one after the other. One that can be gone through more than once (a list, an
# array) serves every algorithm; a generator serves those that need one round.
Calibration = Iterable[Sample]


@dataclass(frozen=True, slots=True)
class Quantized:
    """What a quantizer gives.

    Attributes:
        model: A new model; the float one is not changed.
        report: What was decided, and why.
    """

    model: Model
    report: QuantizationReport


class Quantizer(Protocol):
    """A quantizer; it is made without arguments."""

    def quantize(
        self,
        model: Model,
        calibration: Mapping[str, Calibration],
        options: QuantizationOptions,
        ops: OpRegistry,
    ) -> Quantized:
        """Quantize a model.

        Args:
            model: Float graphs, or graphs that are quantized in part. Not changed.
            calibration: Sets of inputs by graph; empty where nothing is calibrated.
            options: Checked by themselves, not against the model.
            ops: Finds ops.

        Raises:
            QuantizationError: Samples do not fit, hold values that no range can span, or are
                missing; encodings do not fit. Everything that is wrong is listed.
            ConfigError: An option asks for what is not there.
        """

    def write_encodings(self, model: Model, beside: Path) -> tuple[Path, ...]:
        """Write the encodings of each graph of a quantized model, and return the files' paths.

        Args:
            model: What `quantize` gave.
            beside: The model's own file, from which the files' names are made.

        Raises:
            ContainerError: A file cannot be written.
        """
