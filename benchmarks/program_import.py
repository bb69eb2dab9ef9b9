"""Import of a Saver program, compared with the time to read and tokenize its files in Python.

    python -m benchmarks.program_import saver_output.c params.bin
    python -m benchmarks.program_import                             ResNet-50, drawn and exported

Both run by turns in this process; the ratio is that of the fastest runs.
"""

from __future__ import annotations

import importlib
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROUNDS = 5
# A lexer of C as one would write it: text, names, numbers, everything else.
_TOKEN = re.compile(
    rb'"(?:[^"\\\n]|\\.)*"'
    rb"|[A-Za-z_]\w*"
    rb"|[-+]?(?:0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][-+]?\d+)?)"
    rb"|[^\s\w]"
)


@dataclass(frozen=True, slots=True)
class ImportTimes:
    """Times of a program.

    Attributes:
        tokens: Number of tokens of the program.
        tokenize_ms: Fastest time to read both files and to tokenize the program.
        import_ms: Fastest time of the import.
    """

    tokens: int
    tokenize_ms: float
    import_ms: float

    @property
    def ratio(self) -> float:
        """Time of the import in times of tokenizing."""
        return self.import_ms / self.tokenize_ms


def measure(program: Path, params: Path, rounds: int = ROUNDS) -> ImportTimes:
    """Return the times of a program."""
    from dovetail_saver.vendor.importer import import_program  # what is measured

    tokens, tokenize_s, import_s = 0, [], []
    for _ in range(rounds):
        start = time.perf_counter()
        params.read_bytes()
        tokens = sum(1 for _ in _TOKEN.finditer(program.read_bytes()))
        tokenize_s.append(time.perf_counter() - start)
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            import_program(program, params, Path(folder) / "trace")
            import_s.append(time.perf_counter() - start)
    return ImportTimes(tokens, min(tokenize_s) * 1e3, min(import_s) * 1e3)


def write_resnet50(folder: Path) -> tuple[Path, Path]:
    """Write the program of a quantized ResNet-50 with drawn weights; return its files."""
    import onnx  # only where there is no program

    import dovetail as dt
    from benchmarks.preparation import free_inputs, shape_of
    from benchmarks.process import NETWORK_HELPERS
    from benchmarks.quantization.preparation import SEEDS, drawn
    from benchmarks.recipes import NETWORKS
    from dovetail_saver.recording import Recorder
    from dovetail_saver.vendor.exporter import PAYLOADS_NAME, PROGRAM_NAME, export_program

    sys.path.append(str(NETWORK_HELPERS))
    recipe = NETWORKS["resnet50"]
    model = getattr(importlib.import_module(recipe.module), recipe.maker)(**recipe.arguments)
    onnx.save(model, folder / "network.onnx")
    (given,) = free_inputs(model.graph)
    images = drawn(shape_of(given), 2, SEEDS["calibration"])
    options: dict[str, Any] = {"use_per_channel_quantization": True, "bias_bitwidth": 32}
    quantized = dt.quantize(dt.convert(folder / "network.onnx"), list(images), **options)
    with Recorder(folder / "recorded"), dt.Session(quantized, backend="cpu") as session:
        session.run({given.name: images[0]})
    export_program(folder / "recorded", folder)
    return folder / PROGRAM_NAME, folder / PAYLOADS_NAME


def main(arguments: Sequence[str]) -> int:
    """Measure, print and return the exit status."""
    with tempfile.TemporaryDirectory() as name:
        files = write_resnet50(Path(name)) if not arguments else tuple(map(Path, arguments))
        program, params = files
        sizes = [path.stat().st_size / 1e6 for path in files]
        found = measure(program, params)
    print(
        f"program   {sizes[0]:.2f} MB of C, {found.tokens:,} tokens, {sizes[1]:.1f} MB of payloads"
    )
    print(f"tokenize  {found.tokenize_ms:.0f} ms")
    print(f"import    {found.import_ms:.0f} ms")
    print(f"ratio     {found.ratio:.2f} (target: at most 5)")
    return 0 if found.ratio <= 5 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
