"""The work of `dovetail quantize`, after its options are parsed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dovetail.api import load_model
from dovetail.cli.op_packages import add_op_packages, load_op_packages
from dovetail.cli.output import current_output
from dovetail.cli.quantization_run import quantized, report_table, show_advice, show_notes
from dovetail.errors import ConfigError
from dovetail.files import check_suffix, with_suffix
from dovetail.plugins.ops import installed_ops
from dovetail.quantization import Quantized
from dovetail_quantizers.dumping import dump_model_encodings

SUFFIX = ".dvt"


@dataclass(frozen=True, slots=True)
class Files:
    """The files that a quantization reads and writes.

    Attributes:
        model: The float model.
        output: The .dvt to write; in the folder of the float model if None.
        dump: Whether to write encodings files next to the .dvt.
        map_weights: Whether files of weights are mapped; otherwise they are read into memory.
    """

    model: Path
    output: Path | None
    dump: bool
    map_weights: bool = True

    @property
    def target(self) -> Path:
        """The .dvt to write.

        Raises:
            ConfigError: Its suffix is not .dvt, or it is the float model.
        """
        found = self.output or with_suffix(self.model, f".quantized{SUFFIX}") or self.model
        check_suffix(found, SUFFIX, f"a quantized model must be a {SUFFIX} file", "--output-path")
        if found.exists() and self.model.exists() and found.samefile(self.model):
            raise ConfigError(
                "the quantized model would overwrite the float model",
                code="USAGE",
                where=f"--output-path {found}",
                hint="use another name",
            )
        return found


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
    target = files.target
    ops = installed_ops()
    add_op_packages(ops, load_op_packages(op_packages))
    model = load_model(files.model, ops, map_weights=files.map_weights)
    made = quantized(model, input_list, given, ops, native=native)
    made.model.save(target)
    dumped = dump_model_encodings(made.model, target) if files.dump else ()
    show_notes(made.report)
    _tell(files.model, target, made, dumped, time.perf_counter() - start, show=show)


def _tell(
    source: Path,
    target: Path,
    made: Quantized,
    dumped: tuple[Path, ...],
    seconds: float,
    *,
    show: bool,
) -> None:
    output = current_output()
    decisions = [d for each in made.report.tensors.values() for d in each]
    fixed = sum(d.bitwidth is not None for d in decisions)
    samples = sum(made.report.samples.values())
    output.message(
        f"{source} -> {target}: {fixed} of {len(decisions)} tensors are fixed-point, "
        f"{samples} samples, {target.stat().st_size / 1e6:.2f} MB, {seconds:.2f} s"
    )
    show_advice(made.report)
    if not output.json and not show:
        return
    data = {
        "source": str(source),
        "model": str(target),
        "encodings": [str(path) for path in dumped],
        "file_bytes": target.stat().st_size,
        "seconds": seconds,
        "report": made.report.to_builtins(),
    }
    output.data(data, report_table(made.report))
