"""Saver programs with their payloads, mutated, and their trial."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import numpy as np

from dovetail.ir import AxisScaleOffset, DType, ScaleOffset, TensorKind
from dovetail.runtime import Backend, Graph
from dovetail_saver.recording import Recorder
from dovetail_saver.vendor.exporter import PAYLOADS_NAME, PROGRAM_NAME, export_program
from dovetail_saver.vendor.importer import import_program
from fuzz.damage import damage
from fuzz.mutation import Mutated
from fuzz.seeds import Seed
from fuzz.trial import FaultError

# The tests' own program, in the form of the vendor's.
_PROGRAM = Path(__file__).parents[2] / "plugins" / "saver" / "tests" / "programs" / "relu.c"
_BETWEEN = b"\n--- payloads ---\n"  # a mutated file has both
_BYTES = 0.2  # share of mutations that know nothing of C
_NUMBER = re.compile(rb"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?(?!\w)")
_NAME = re.compile(rb"[A-Za-z_]\w+")
_EXTREMES = (
    b"0", b"-1", b"1", b"65", b"2147483647", b"-2147483648", b"4294967295", b"4294967296",
    b"18446744073709551615", b"99999999999999999999", b"1e999", b"-0.0", b"1.5", b"NULL", b"NAN",
    b'"text"', b"{}", b"{1, 2}", b"9" * 5000,
)  # fmt: skip


def program_seeds() -> list[Seed]:
    """Return programs with their payloads: the tests' own one, and one that we export."""
    data = bytes([0, 3, 5, 255, 9, 9, 9, 9])
    return [Seed("relu", _PROGRAM.read_bytes() + _BETWEEN + data), Seed("network", _exported())]


def _exported() -> bytes:
    folder = Path(__file__).parents[2] / ".fuzz-program"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with Recorder(folder / "trace"), Backend.create("cpu") as backend:
            context = backend.create_context(config={"context_priority": "high"})
            _compose(context.create_graph("net"))
            profile = backend.create_profile(1)
            _compose(context.create_graph("other")).finalize(profile)
        export_program(folder / "trace", folder)
        parts = [(folder / name).read_bytes() for name in (PROGRAM_NAME, PAYLOADS_NAME)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return _BETWEEN.join(parts)


def _compose(graph: Graph) -> Graph:
    """Return a graph with a quantized convolution, whose weights have a scale for each channel."""
    fixed, scale = DType.UFIXED_POINT_8, ScaleOffset(0.5, -3)
    x = graph.create_tensor("x", fixed, (1, 4, 4, 2), TensorKind.APP_WRITE, encoding=scale)
    w = graph.create_tensor(
        "w",
        DType.SFIXED_POINT_8,
        (1, 1, 2, 3),
        TensorKind.STATIC,
        AxisScaleOffset(3, np.full(3, 0.25, np.float32), np.zeros(3, np.int32)),
        np.arange(6, dtype=np.int8).reshape(1, 1, 2, 3),
    )
    y = graph.create_tensor("y", fixed, (1, 4, 4, 3), TensorKind.APP_READ, encoding=scale)
    stride = graph.create_tensor(
        "s", DType.UINT_32, (2,), TensorKind.STATIC, data=np.ones(2, np.uint32)
    )
    pads = graph.create_tensor(
        "p", DType.UINT_32, (2, 2), TensorKind.STATIC, data=np.zeros((2, 2), np.uint32)
    )
    params = {"stride": stride.ir, "pad_amount": pads.ir}
    graph.add_node("conv", "qti.aisw", "Conv2d", [x, w], [y], params)
    return graph


def mutate_program(seeds: Sequence[Seed], run: int, number: int) -> Mutated:
    """Return a program with its payloads."""
    random = Random(f"{run}:{number}")
    seed = seeds[random.randrange(len(seeds))]
    if random.random() >= _BYTES:
        data, how = mutate_source(seed.data, random)
    else:
        data, how = damage(seed.data, random), ["bytes"]
    return Mutated(seed.name, tuple(how), data)


def mutate_source(data: bytes, random: Random) -> tuple[bytes, list[str]]:
    """Return changed source of C, and how it was changed."""
    how = []
    for _ in range(random.choice((1, 1, 1, 2, 3, 5))):
        mutation = random.choice(_MUTATIONS)
        data = mutation(data, random)
        how.append(mutation.__name__.strip("_"))
    return data, how


def import_mutated(path: Path) -> None:
    """Import a program; a trace must be the same after its export and import.

    Raises:
        DovetailError: The program is rejected.
        FaultError: The trace differs, or a rejected program has left files.
    """
    text, _, payloads = path.read_bytes().partition(_BETWEEN)
    folder = path.parent / "program"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        program, params = folder / PROGRAM_NAME, folder / PAYLOADS_NAME
        program.write_bytes(text)
        params.write_bytes(payloads)
        try:
            import_program(program, params, folder / "first")
        except BaseException:
            if len(list(folder.iterdir())) != 2:
                raise FaultError("a rejected program has left files") from None
            raise
        export_program(folder / "first", folder / "written")
        written = folder / "written"
        import_program(written / PROGRAM_NAME, written / PAYLOADS_NAME, folder / "second")
        for file in (folder / "first").iterdir():
            if file.read_bytes() != (folder / "second" / file.name).read_bytes():
                raise FaultError(f"{file.name} differs after export and import")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# -- mutations -----------------------------------------------------------------------------------


def _number(data: bytes, random: Random) -> bytes:
    return _replaced(data, _NUMBER, random.choice(_EXTREMES), random)


def _name(data: bytes, random: Random) -> bytes:
    names = _NAME.findall(data)
    return _replaced(data, _NAME, random.choice(names), random) if names else data


def _replaced(data: bytes, pattern: re.Pattern[bytes], new: bytes, random: Random) -> bytes:
    found = list(pattern.finditer(data))
    if not found:
        return data
    chosen = random.choice(found)
    return data[: chosen.start()] + new + data[chosen.end() :]


def _lines(change: Callable[[list[bytes], int, Random], None]) -> Callable[[bytes, Random], bytes]:
    def mutate(data: bytes, random: Random) -> bytes:
        lines = data.split(b"\n")
        change(lines, random.randrange(len(lines)), random)
        return b"\n".join(lines)

    mutate.__name__ = change.__name__
    return mutate


def _remove_line(lines: list[bytes], at: int, _: Random) -> None:
    del lines[at]


def _repeat_line(lines: list[bytes], at: int, random: Random) -> None:
    lines[at:at] = [lines[at]] * random.choice((1, 1, 200))


def _move_line(lines: list[bytes], at: int, random: Random) -> None:
    line = lines.pop(at)
    lines.insert(random.randrange(len(lines) + 1), line)


_MUTATIONS: tuple[Callable[[bytes, Random], bytes], ...] = (
    _number,
    _number,
    _name,
    _name,
    _lines(_remove_line),
    _lines(_repeat_line),
    _lines(_move_line),
)
