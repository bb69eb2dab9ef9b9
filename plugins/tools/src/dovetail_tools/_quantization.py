"""Quantization as a part of `dovetail convert`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dovetail.api import Model
from dovetail.api.quantization import run_stating
from dovetail.cli.output import current_output
from dovetail.ops import OpRegistry
from dovetail.quantization import options_from
from dovetail_tools._errors import usage

QUANTIZE = "Quantize"
_LOG = logging.getLogger("dovetail.convert")


@dataclass(frozen=True, slots=True)
class QuantizationRequest:
    """The quantization that the command line asks of a conversion.

    Attributes:
        input_list: Path of an input list.
        given: The quantizer's options that were given.
        native: Whether raw inputs have values of the inputs' types.
        only_states: Whether the model stays float and only states the encodings of a file.
        strips: Whether nodes that quantize are removed from a model that stays float, which states
            their encodings.
        dump: Whether encodings are written next to the .dvt.
        show: Whether the report is printed.
    """

    input_list: str | None
    given: Mapping[str, Any]
    native: bool = False
    only_states: bool = False
    strips: bool = False
    dump: bool = False
    show: bool = False

    @property
    def wanted(self) -> bool:
        """True if the quantizer changes the model, if only for a backend."""
        return not self.only_states and (self._changes_types or "target_backend" in self.given)

    @property
    def options(self) -> Mapping[str, Any]:
        """The quantizer's options, which leave all floats if there is only a backend."""
        return self.given if self._changes_types else {**self.given, "float_fallback": True}

    @property
    def _changes_types(self) -> bool:
        half = self.given.get("float_bitwidth") == 16
        alone = {"quantization_overrides", "float_fallback", "keep_weights_quantized"}
        return self.input_list is not None or bool(self.given.keys() & alone) or half

    def check(self) -> None:
        """Raise if the quantizer's options are given, but the model is not quantized.

        With `--lenient`, log a warning instead.

        Raises:
            ConfigError: Names all these options.
        """
        if self.only_states:
            self._check_stating()
            return
        # a float model has its nodes, and has no encodings, unless the nodes are to be removed
        known = {"lenient", "keep_quant_nodes"} | ({"ignore_encodings"} if self.strips else set())
        names = ["--" + name.replace("_", "-") for name in self.given if name not in known]
        names += ["--use-native-input-files"] * self.native
        names += ["--dump-encoding-json"] * self.dump + ["--report"] * self.show
        if self.wanted or not names:
            return
        text = f"no effect of {', '.join(names)}: the model is not quantized"
        if "lenient" not in self.given:
            raise usage(
                text,
                where="dovetail convert",
                hint="give --input-list, --quantization-overrides, --float-fallback, "
                "--keep-weights-quantized, --float-bitwidth 16 or --target-backend",
            )
        _LOG.warning(text)

    def _check_stating(self) -> None:
        hint = "quantize with them later"
        needless = self.given.keys() - {"quantization_overrides", "lenient", "keep_quant_nodes"}
        if "quantization_overrides" not in self.given:
            text = "--cache-overrides requires --quantization-overrides"
            hint = "pass the encodings file there"
        elif self.input_list is not None or needless:
            names = ["input_list"] * (self.input_list is not None) + sorted(needless)
            options = ", ".join("--" + name.replace("_", "-") for name in names)
            text = f"--cache-overrides stores encodings without quantizing: no effect of {options}"
        else:
            return
        raise usage(text, where="dovetail convert", hint=hint)

    def stated(self, model: Model, ops: OpRegistry) -> Model:
        """Return the float model with the encodings that it is to state.

        Raises:
            DovetailError: The encodings file has faults, or does not match the model.
        """
        keeps = not self.strips or "keep_quant_nodes" in self.given
        if not self.only_states and (keeps or not quantizing_nodes(model)):
            return model
        said = ("quantization_overrides", "ignore_encodings", "lenient")
        given = {name: self.given[name] for name in said if name in self.given}
        options = options_from({**given, "keep_quant_nodes": keeps}, "command line")
        made, notes = run_stating(model, options, ops)
        for note in notes:
            current_output().message(f"note: {note}")
        return made


def quantizing_nodes(model: Model) -> int:
    """Return the number of nodes that quantize."""
    nodes = (node for graph in model.graphs.values() for node in graph.nodes)
    return sum(node.op_type == QUANTIZE for node in nodes)
