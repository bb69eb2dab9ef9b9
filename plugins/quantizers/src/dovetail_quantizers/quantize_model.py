"""What `dovetail quantize` does once its options are read."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dovetail.api import load_model
from dovetail.cli.output import current_output
from dovetail.cli.quantizing import quantized, report_table, show_notes
from dovetail.errors import ConfigError
from dovetail.files import safe_name
from dovetail.plugins.ops import installed_ops
from dovetail.quantization import Quantized
from dovetail_quantizers.files import encodings_of, write_encodings

SUFFIX = ".dvt"
_VERSION = "1.0.0"


@dataclass(frozen=True, slots=True)
class Files:
    """Where a model comes from and where the quantized one goes.

    Attributes:
        model: The float model.
        output: The .dvt to write; beside the model if None.
        dump: Whether encodings are written beside the .dvt.
    """

    model: Path
    output: Path | None
    dump: bool

    @property
    def target(self) -> Path:
        """The .dvt to write.

        Raises:
            ConfigError: Its name is no .dvt's.
        """
        found = self.output or self.model.with_suffix(f".quantized{SUFFIX}")
        if found.suffix.lower() != SUFFIX:
            raise ConfigError(
                f"a quantized model is a {SUFFIX} file, and its name must say so",
                code="USAGE",
                where=f"--output-path {found}",
                hint=f"say --output-path {found.with_suffix(SUFFIX)}",
            )
        return found


def quantize_model(
    files: Files,
    input_list: str | None,
    given: Mapping[str, Any],
    *,
    native: bool,
    show: bool,
) -> None:
    """Quantizes a model file and says what came of it.

    Raises:
        DovetailError: It cannot be quantized or written; then nothing is.
    """
    start = time.perf_counter()
    target = files.target
    ops = installed_ops()
    made = quantized(load_model(files.model, ops), input_list, given, ops, native=native)
    made.model.save(target)
    dumped = _dump(made, target) if files.dump else []
    show_notes(made.report)
    _tell(files.model, target, made, dumped, time.perf_counter() - start, show=show)


def _dump(made: Quantized, target: Path) -> list[Path]:
    """Writes the encodings of each graph, in the names of the user's model."""
    written = []
    for name, graph in made.model.graphs.items():
        path = target.with_name(f"{target.stem}_{safe_name(name)}.encodings")
        write_encodings(encodings_of(graph, _VERSION), path, _VERSION, lossy=True)
        written.append(path)
    return written


def _tell(
    source: Path,
    target: Path,
    made: Quantized,
    dumped: list[Path],
    seconds: float,
    *,
    show: bool,
) -> None:
    output = current_output()
    decisions = [d for each in made.report.tensors.values() for d in each]
    fixed = sum(d.bitwidth is not None for d in decisions)
    samples = sum(made.report.samples.values())
    output.message(
        f"{source} -> {target}: {fixed} of {len(decisions)} tensors in fixed point, "
        f"{samples} samples, {target.stat().st_size / 1e6:.2f} MB, {seconds:.2f} s"
    )
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
