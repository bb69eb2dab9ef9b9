"""The default quantizer: models, and what the contract asks besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dovetail.container import Model
from dovetail.errors import ConfigError, Problem, suggest_name
from dovetail.ir import Array, Encoding, Graph, Tensor
from dovetail.ops import OpRegistry
from dovetail.quantization import (
    Calibration,
    QuantizationOptions,
    QuantizationReport,
    Quantized,
)
from dovetail_quantizers.advice.advise import joined
from dovetail_quantizers.aimet import require_aimet
from dovetail_quantizers.dumping import dump_model_encodings
from dovetail_quantizers.entries import check_entries
from dovetail_quantizers.graph_quantizer import GraphQuantizer, QuantizedGraph
from dovetail_quantizers.planning.overrides import overrides_for
from dovetail_quantizers.planning.recipe import recipes_of
from dovetail_quantizers.sdk_config import with_config
from dovetail_quantizers.stating import with_stated_encodings
from dovetail_quantizers.targets import Target
from dovetail_quantizers.updating import encoding_for, encodings_in, save_encodings


class DefaultQuantizer:
    """A quantizer that uses calibration, encodings files, or both."""

    def quantize(
        self,
        model: Model,
        calibration: Mapping[str, Calibration],
        options: QuantizationOptions,
        ops: OpRegistry,
    ) -> Quantized:
        """Quantize a model; see `dovetail.quantization.Quantizer`."""
        options, notes = with_config(options)
        graphs = tuple(model.graphs.values())
        file, options = overrides_for(options, graphs)
        require_aimet(options)
        _require_interfaces(options, model)
        recipes = recipes_of(options)
        target = Target(options, recipes, ops)
        quantizer = GraphQuantizer(options, file, recipes, target, ops)
        floats = [quantizer.float_graph(graph) for graph in graphs]
        # a file that was written for the same backend also has the tensors of written-out ops
        notes += check_entries(file, (*graphs, *(each.graph for each in floats)), options)
        found = {
            each.source.name: quantizer.quantize(each, calibration.get(each.source.name))
            for each in floats
        }
        made = Model.of(*(g.graph for g in found.values()), producer=model.producer, registry=ops)
        return Quantized(made, _report(found, notes))

    def configured(self, options: QuantizationOptions) -> QuantizationOptions:
        """Return options completed by their config file; see `dovetail.quantization.Quantizer`."""
        return with_config(options)[0]

    def state_encodings(
        self, model: Model, options: QuantizationOptions, ops: OpRegistry
    ) -> tuple[Model, tuple[str, ...]]:
        """Return a float model that states encodings; see `dovetail.quantization.Quantizer`."""
        return with_stated_encodings(model, options, ops)

    def write_encodings(self, model: Model, model_path: Path) -> tuple[Path, ...]:
        """Write the encodings of each graph; see `dovetail.quantization.Quantizer`."""
        return dump_model_encodings(model, model_path)

    def read_encodings(self, path: Path, graph: Graph, ops: OpRegistry) -> dict[str, Encoding]:
        """Return the encodings in a file; see `dovetail.quantization.Quantizer`."""
        return encodings_in(path, graph, ops)

    def encoding_for(self, tensor: Tensor, values: Array) -> Encoding:
        """Return an encoding for other values; see `dovetail.quantization.Quantizer`."""
        return encoding_for(tensor, values)

    def save_encodings(
        self, graph: Graph, encodings: Mapping[str, Encoding], path: Path, ops: OpRegistry
    ) -> None:
        """Write encodings of tensors; see `dovetail.quantization.Quantizer`."""
        save_encodings(graph, encodings, path, ops)


def _require_interfaces(options: QuantizationOptions, model: Model) -> None:
    """Raise if an input or output that is to stay float is in no graph."""
    names = options.preserve_io_datatype
    graphs = model.graphs.values()
    known = {tensor.name for graph in graphs for tensor in (*graph.inputs, *graph.outputs)}
    problems = [
        Problem(f"no input or output '{name}'", hint=suggest_name(name, known))
        for name in (() if isinstance(names, bool) else names)
        if name not in known
    ]
    if problems:
        raise ConfigError(
            "options name unknown tensors", where="preserve_io_datatype", problems=problems
        )


def _report(found: Mapping[str, QuantizedGraph], notes: Sequence[str]) -> QuantizationReport:
    """Return the report on a model.

    Args:
        found: Its graphs.
        notes: Notes on the whole model.
    """
    return QuantizationReport(
        tensors={name: graph.tensors for name, graph in found.items()},
        samples={name: graph.samples for name, graph in found.items()},
        uncovered={n: g.uncovered for n, g in found.items() if g.uncovered is not None},
        notes=(*notes, *(note for graph in found.values() for note in graph.notes)),
        differences={n: g.differences for n, g in found.items() if g.differences},
        judgements={n: g.judgements for n, g in found.items() if g.judgements},
        advice=joined([graph.advice for graph in found.values()]),
    )
