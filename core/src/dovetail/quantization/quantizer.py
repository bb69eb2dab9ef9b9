"""Contract of quantizers, which turn a float model and samples into a fixed-point model.

A quantizer is a class that an entry point of `dovetail.quantizers` loads; `dovetail.quantize` uses
the entry point named `default`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from dovetail.container import Model
from dovetail.ir import Array, Encoding, Graph, Tensor
from dovetail.ops import OpRegistry
from dovetail.quantization.options import QuantizationOptions
from dovetail.quantization.report import QuantizationReport

# One set of inputs: arrays by input name, or one array for a graph with one input.
Sample = Mapping[str, Any] | Any
# Sets of inputs. Some algorithms need to iterate over them more than once, which a list or an
# array allows and a generator does not.
Calibration = Iterable[Sample]


@dataclass(frozen=True, slots=True)
class Quantized:
    """Result of a quantizer.

    Attributes:
        model: The new model; the float model is not changed.
        report: The decisions and their reasons.
    """

    model: Model
    report: QuantizationReport


class Quantizer(Protocol):
    """A quantizer, created without arguments."""

    def quantize(
        self,
        model: Model,
        calibration: Mapping[str, Calibration],
        options: QuantizationOptions,
        ops: OpRegistry,
    ) -> Quantized:
        """Quantize a model.

        Args:
            model: Model with float or partly quantized graphs. Not changed.
            calibration: Sets of inputs by graph; empty if nothing is calibrated.
            options: Options that are checked, but not against the model.
            ops: Finds ops.

        Raises:
            QuantizationError: Samples are missing, do not match or have values that no range
                covers, or encodings do not match; all faults are listed.
            ConfigError: An option refers to something unknown.
        """

    def configured(self, options: QuantizationOptions) -> QuantizationOptions:
        """Return options completed by their config file; without one, the options.

        Raises:
            ConfigError: The file cannot be read or is wrong; all faults are listed.
        """

    def state_encodings(
        self, model: Model, options: QuantizationOptions, ops: OpRegistry
    ) -> tuple[Model, tuple[str, ...]]:
        """Return a float model that states encodings, for a later `quantize`.

        Args:
            model: The float model. Not changed.
            options: They may name an encodings file. Unless `keep_quant_nodes` is set, nodes that
                quantize or dequantize are removed; without `ignore_encodings`, the model states
                their encodings, too.
            ops: Finds ops.

        Returns:
            A model with the encodings in `Graph.source_encodings`, and notes on entries that it
            cannot state.

        Raises:
            FrontendError: The file cannot be read.
            QuantizationError: The file has faults, or entries match no tensor; all are listed.
        """

    def write_encodings(self, model: Model, model_path: Path) -> tuple[Path, ...]:
        """Write the encodings of each graph of a quantized model and return the paths.

        Args:
            model: A model from `quantize`.
            model_path: The model's file, from which the names of the encodings files derive.

        Raises:
            ContainerError: A file cannot be written.
        """

    def read_encodings(self, path: Path, graph: Graph, ops: OpRegistry) -> Mapping[str, Encoding]:
        """Return the encodings of a file for the updateable tensors of a quantized graph.

        Args:
            path: An encodings file in the names and layouts of the user's model.
            graph: The graph.
            ops: Finds ops.

        Returns:
            The encodings by the names of the graph's tensors, in their layouts and types.

        Raises:
            FrontendError: The file cannot be read.
            QuantizationError: The file has faults, or entries match no tensor; all are listed.
        """

    def encoding_for(self, tensor: Tensor, values: Array) -> Encoding:
        """Return an encoding for other values of a tensor, of the kind and bitwidth of its own.

        Args:
            tensor: A tensor with an encoding.
            values: Its new real values, in its shape.

        Raises:
            QuantizationError: The values are not finite, or the kind has no such rule.
        """

    def save_encodings(
        self, graph: Graph, encodings: Mapping[str, Encoding], path: Path, ops: OpRegistry
    ) -> None:
        """Write encodings of updateable tensors to a file that `read_encodings` reads.

        Args:
            graph: The graph.
            encodings: The encodings by the names of its tensors.
            path: The file to write.
            ops: Finds ops.

        Raises:
            ContainerError: The file cannot be written.
            QuantizationError: The file cannot hold the encodings.
        """
