"""Quantization in commands, after their options are parsed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dovetail.api.quantization import run_quantizer
from dovetail.cli.inputs.samples import listed_samples
from dovetail.cli.op_package_option import split_list
from dovetail.cli.output import current_output, table
from dovetail.cli.progress import shown_progress
from dovetail.container import Model
from dovetail.errors import ConfigError, counted, listed
from dovetail.ops import OpRegistry
from dovetail.quantization import QuantizationReport, Quantized, options_from


def quantized(
    model: Model,
    input_list: str | None,
    given: Mapping[str, Any],
    ops: OpRegistry,
    *,
    native: bool,
) -> Quantized:
    """Quantize a model with the options of the command line.

    Args:
        model: Not changed.
        input_list: Paths of input lists, one per graph, separated by commas; None without lists.
        given: Options by name.
        ops: Finds ops.
        native: Whether raw files contain values of the inputs' types.

    Raises:
        DovetailError: Options, lists or samples are wrong.
    """
    options = options_from(given, "command line")
    paths = split_list(input_list, "--input-list")
    if paths and len(paths) != len(model.graphs):
        raise ConfigError(
            f"{counted(len(paths), 'input list')} for {counted(len(model.graphs), 'graph')}",
            code="USAGE",
            where=f"--input-list {input_list}",
            hint="pass one list per graph, in the order of the model, separated by commas",
        )
    lists = [(g, Path(p)) for g, p in zip(model.graphs.values(), paths, strict=False)]
    samples = listed_samples(lists, native=native)
    with shown_progress():
        return run_quantizer(model, samples or None, options, ops)


def show_advice(report: QuantizationReport) -> None:
    """Print the options that would reduce the error of the outputs, if there are any."""
    if not report.advice:
        return
    output = current_output()
    output.message("options that would reduce the error of the outputs most, by an estimate:")
    for advice in report.advice:
        option = "--" + advice.option.replace("_", "-")
        shown = " ".join(advice.value) if isinstance(advice.value, tuple) else advice.value
        value = "" if shown is True else f" {shown}"
        output.message(f"  {option}{value}: {advice.why}")


def show_notes(report: QuantizationReport) -> None:
    """Print the notes on a quantization, and the tensors that an encodings file leaves out."""
    output = current_output()
    for note in report.notes:
        output.message(f"note: {note}")
    for graph, names in report.uncovered.items():
        if names:
            missing = f"{counted(len(names), 'tensor')} without an entry: {listed(names, 5)}"
            output.message(f"graph '{graph}': {missing}")


def report_table(report: QuantizationReport) -> str:
    """Return the report as a table with one row per tensor.

    For a model that was quantized before, a table of differences follows.
    """
    rows = []
    for graph, decisions in report.tensors.items():
        for each in decisions:
            ends = "" if each.minimum is None else f"{each.minimum:.6g} .. {each.maximum:.6g}"
            scale = "" if each.scale is None else f"{each.scale:.6g}, {each.offset}"
            count = f"{each.scales} scales" if each.scales not in (None, 1) else scale
            shared = f" (shared with {each.shared_with})" if each.shared_with else ""
            type_name = each.dtype if each.bitwidth is None else f"{each.dtype} ({each.bitwidth})"
            tensor = each.tensor if each.name is None else f"{each.tensor} [{each.name}]"
            rows.append((graph, tensor, each.role, type_name, count, ends, each.why + shared))
    headers = ("graph", "tensor", "role", "type", "scale, offset", "range", "why")
    text = table(headers, rows)
    differences = [
        (graph, each.tensor, each.kind, each.text)
        for graph, them in report.differences.items()
        for each in them
    ]
    if not differences:
        return text
    return f"{text}\n\n{table(('graph', 'tensor', 'was quantized before', 'here'), differences)}"
