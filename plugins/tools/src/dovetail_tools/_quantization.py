"""Quantization as a part of `dovetail convert`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dovetail.api import Model
from dovetail.api.quantization import run_stating
from dovetail.cli.output import current_output
from dovetail.cli.quantization_run import quantized
from dovetail.ir import copy_graph
from dovetail.ops import OpRegistry
from dovetail.quantization import Quantized, options_from
from dovetail_tools._errors import usage

QUANTIZE = "Quantize"
_OF_FLOATS = {"float_bitwidth", "float_bias_bitwidth", "target_backend"}
_USED_BY_FLOATS = _OF_FLOATS | {"lenient", "preserve_io_datatype", "keep_quant_nodes"}
_LOG = logging.getLogger("dovetail.convert")


@dataclass(frozen=True, slots=True)
class QuantizationRequest:
    """The quantization that the command line asks of a conversion.

    Attributes:
        input_list: Path of an input list.
        given: The quantizer's options that were given.
        native: Whether raw inputs have values of the inputs' types.
        only_states: Whether the model only states the encodings of a file, and stays float, of the
            types that `float_bitwidth` and a backend ask for.
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
        return self._fixes or self._changes_floats

    @property
    def _options(self) -> Mapping[str, Any]:
        """The quantizer's options, which leave all floats if there is only a backend."""
        used = {n: v for n, v in self.given.items() if not self._states or n in _USED_BY_FLOATS}
        return used if self._fixes or self._is_half else used | {"float_fallback": True}

    @property
    def _states(self) -> bool:
        """True if the model stays float and states the encodings of a file or of its nodes."""
        return self.only_states or (not self._fixes and self._strips)

    @property
    def _strips(self) -> bool:
        """True if the nodes of a float model that quantize are removed."""
        asked = self.strips or "ignore_encodings" in self.given
        return asked and "keep_quant_nodes" not in self.given

    @property
    def _fixes(self) -> bool:
        """True if tensors become fixed-point."""
        alone = {"quantization_overrides", "float_fallback", "keep_weights_quantized"}
        asked = self.input_list is not None or not alone.isdisjoint(self.given)
        return asked and not self.only_states

    @property
    def _changes_floats(self) -> bool:
        return self._is_half or "target_backend" in self.given

    @property
    def _is_half(self) -> bool:
        return self.given.get("float_bitwidth") == 16

    def check_values(self) -> None:
        """Raise if the quantizer's options that have an effect are invalid.

        Raises:
            ConfigError: Lists every fault.
        """
        if self.wanted:
            options_from(self._options, "command line")

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
                where=current_output().command,
                hint="give --input-list, --quantization-overrides, --float-fallback, "
                "--keep-weights-quantized, --float-bitwidth 16 or --target-backend",
            )
        _LOG.warning("%s; pass them when you quantize it", text)

    def _check_stating(self) -> None:
        if "quantization_overrides" not in self.given:
            raise usage(
                "--cache-overrides requires --quantization-overrides",
                where=current_output().command,
                hint="pass the encodings file there",
            )
        known = _USED_BY_FLOATS | {"quantization_overrides"}
        known -= set() if self._changes_floats else _OF_FLOATS
        names = ["input_list"] * (self.input_list is not None) + sorted(self.given.keys() - known)
        names += ["use_native_input_files"] * self.native
        names += ["dump_encoding_json"] * self.dump + ["report"] * self.show
        if not names:
            return
        options = ", ".join("--" + name.replace("_", "-") for name in names)
        text = f"--cache-overrides stores encodings without quantizing: no effect of {options}"
        if "lenient" not in self.given:
            raise usage(text, where=current_output().command, hint="quantize with them later")
        _LOG.warning("%s; quantize with them later", text)

    def quantized(self, model: Model, ops: OpRegistry) -> Quantized:
        """Return the model as the quantizer changes it.

        Raises:
            DovetailError: Options, lists or samples are wrong.
        """
        source = _without_statements(model, ops) if self._states else model
        made = quantized(source, self.input_list, self._options, ops, native=self.native)
        if self._states:
            for name, graph in made.model.graphs.items():
                graph.source_encodings.update(model.graphs[name].source_encodings)
        return made

    def stated(self, model: Model, ops: OpRegistry) -> Model:
        """Return the float model with the encodings that it is to state.

        Raises:
            DovetailError: The encodings file has faults, or does not match the model.
        """
        if not self._states or not (self.only_states or quantizing_nodes(model)):
            return model
        said = ("quantization_overrides", "ignore_encodings", "lenient")
        given = {name: self.given[name] for name in said if name in self.given}
        options = options_from({**given, "keep_quant_nodes": not self._strips}, "command line")
        made, notes = run_stating(model, options, ops)
        for note in notes:
            current_output().message(f"note: {note}")
        return made


def _without_statements(model: Model, ops: OpRegistry) -> Model:
    """Return a model that states no encodings, for the quantizer to leave it float."""
    graphs = [copy_graph(graph) for graph in model.graphs.values()]
    for graph in graphs:
        graph.source_encodings.clear()
    return Model.of(*graphs, producer=model.producer, registry=ops)


def quantizing_nodes(model: Model) -> int:
    """Return the number of nodes that quantize."""
    nodes = (node for graph in model.graphs.values() for node in graph.nodes)
    return sum(node.op_type == QUANTIZE for node in nodes)
