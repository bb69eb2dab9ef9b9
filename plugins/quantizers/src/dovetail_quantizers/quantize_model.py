"""The work of `dovetail quantize`, after its options are parsed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dovetail.api import load_model
from dovetail.api.exporting import ModelFile, model_file
from dovetail.cli.model_output import write_model
from dovetail.cli.op_packages import add_op_packages, load_op_packages
from dovetail.cli.output import current_output, named_files
from dovetail.cli.quantization_run import quantized, report_table, show_advice, show_notes
from dovetail.errors import counted
from dovetail.files import with_suffix
from dovetail.ir import DType
from dovetail.plugins.ops import installed_ops
from dovetail.quantization import Quantized, TensorDecision
from dovetail_quantizers.dumping import dump_model_encodings

SUFFIX = ".dvt"


@dataclass(frozen=True, slots=True)
class Files:
    """The files that a quantization reads and writes.

    Attributes:
        model: The float model.
        output: The file to write; a .dvt in the folder of the float model if None.
        dump: Whether to write encodings files next to it.
        format: Name of an exporter; None to find it by the suffix.
        map_weights: Whether files of weights are mapped; otherwise they are read into memory.
    """

    model: Path
    output: Path | None
    dump: bool
    format: str | None = None
    map_weights: bool = True

    def target(self) -> ModelFile:
        """Return the file to write.

        Raises:
            ConfigError: Its suffix belongs to no format or to several, or it is the float model.
            PluginError: The exporter is not installed, or it is broken.
        """
        found = self.output or with_suffix(self.model, f".quantized{SUFFIX}") or self.model
        return model_file(found, self.model, self.format, "--output-path")


def quantize_model(
    files: Files,
    input_list: str | None,
    given: Mapping[str, Any],
    op_packages: tuple[str, ...] = (),
    *,
    native: bool,
    show: bool,
) -> None:
    """Quantize a model file and print a summary.

    Args:
        files: Where the model is read and written.
        input_list: Paths of lists of raw inputs, separated by commas; None for none.
        given: The quantizer's options.
        op_packages: Op packages that are not installed, as `--op-packages` names them.
        native: Whether raw files hold values of the inputs' types.
        show: Whether the report is printed.

    Raises:
        DovetailError: The model cannot be quantized or written; then no file is written.
    """
    start = time.perf_counter()
    file = files.target()
    ops = installed_ops()
    add_op_packages(ops, load_op_packages(op_packages))
    model = load_model(files.model, ops, map_weights=files.map_weights)
    made = quantized(model, input_list, given, ops, native=native)
    written = write_model(file, made.model)
    dumped = dump_model_encodings(made.model, file.path) if files.dump else ()
    show_notes(made.report)
    _report(files.model, written, made, dumped, time.perf_counter() - start, show=show)


def _report(
    source: Path,
    files: tuple[Path, ...],
    made: Quantized,
    dumped: tuple[Path, ...],
    seconds: float,
    *,
    show: bool,
) -> None:
    output = current_output()
    decisions = [d for each in made.report.tensors.values() for d in each]
    samples = sum(made.report.samples.values())
    size = sum(file.stat().st_size for file in files)
    output.message(
        f"{source} -> {named_files(files)}: {_kinds_text(decisions)}, "
        f"{counted(samples, 'sample')}, {size / 1e6:.2f} MB, {seconds:.2f} s"
    )
    show_advice(made.report)
    if not output.json and not show:
        return
    data = {
        "source": str(source),
        "model": str(files[0]),
        "files": [str(file) for file in files],
        "encodings": [str(path) for path in dumped],
        "file_bytes": size,
        "seconds": seconds,
        "report": made.report.to_builtins(),
    }
    output.data(data, report_table(made.report))


def _kinds_text(decisions: Sequence[TensorDecision]) -> str:
    """Return how many of the tensors that were decided on are fixed-point, and how many float16."""
    if not decisions:
        return "no tensor quantized"
    fixed = sum(each.bitwidth is not None for each in decisions)
    half = sum(each.dtype == DType.FLOAT_16.name for each in decisions)
    text = f"{fixed:,} of {len(decisions):,} tensors are fixed-point"
    return f"{text}, {half:,} are float16" if half else text
