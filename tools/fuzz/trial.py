"""Trial of one mutated file in this process: it must be read, or rejected properly."""

from __future__ import annotations

import math
import os
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import dovetail
from dovetail import Model, Session
from dovetail.errors import (
    ContainerError,
    DovetailError,
    FrontendError,
    TraceError,
    UnsupportedOpError,
)
from fuzz.models import WEIGHTS_BYTES, WEIGHTS_FILE

# In the paths of our modules, whatever the checkout's folder is called
SOURCES = os.path.join("src", "dovetail")
# Outside the folder of the model: no model may read it.
_SECRET = b"this must not be read by any model"
# Largest size of all tensors of a graph that is prepared, which takes as much memory.
_MOST_PREPARED = 16 << 20


class FaultError(Exception):
    """A conversion raised nothing, but its result is wrong."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a file.

    Attributes:
        verdict: "succeeded", an error's code, or the kind of a finding and its location.
        is_finding: Whether it is a fault.
        seconds: Duration.
        peak_bytes: Growth of the memory in use.
        detail: The traceback of a finding.
    """

    verdict: str
    is_finding: bool = False
    seconds: float = 0.0
    peak_bytes: int = 0
    detail: str = ""


def make_folder(root: Path) -> Path:
    """Create and return a folder for models, with the files that they may refer to."""
    folder = root / "models"
    folder.mkdir()
    (folder / WEIGHTS_FILE).write_bytes(bytes(range(WEIGHTS_BYTES)))
    (root / "secret.bin").write_bytes(_SECRET)
    (folder / "link").symlink_to("../secret.bin")
    os.mkfifo(folder / "fifo")
    return folder


def attempt(read: Callable[[Path], None], path: Path) -> Outcome:
    """Read a file and judge the outcome."""
    start, before = time.perf_counter(), _reset_peak()
    try:
        read(path)
        outcome = Outcome("succeeded")
    except (FrontendError, UnsupportedOpError, ContainerError, TraceError) as error:
        outcome = _rejected(error)
    except (Exception, RecursionError) as error:  # noqa: BLE001 - any other is a finding
        outcome = _found(error)
    seconds, grown = time.perf_counter() - start, max(0, _status("VmHWM") - before)
    return Outcome(outcome.verdict, outcome.is_finding, seconds, grown, outcome.detail)


def convert(path: Path) -> None:
    """Convert a model; save, load and prepare the result where it is small.

    Raises:
        DovetailError: The model is rejected.
        FaultError: The result is wrong.
    """
    model = dovetail.convert(path)
    _check_secret(model)
    kept = path.with_suffix(".dvt")
    if _total_bytes(model) > _MOST_PREPARED:
        return
    try:
        model.save(kept)
        dovetail.load(kept)
    except DovetailError as error:
        raise FaultError(f"the converted model cannot be saved: {error}") from error
    _prepare(model)


def load(path: Path) -> None:
    """Load a container and prepare its graphs where they are small.

    Raises:
        DovetailError: The container is rejected.
    """
    model = dovetail.load(path)
    for graph in model.graphs.values():
        for tensor in graph.tensors.values():
            if tensor.data is not None:
                tensor.stored()
    if _total_bytes(model) <= _MOST_PREPARED:
        _prepare(model)


def _prepare(model: Model) -> None:
    with suppress(DovetailError):  # a backend may reject what can be converted
        Session(model, backend="cpu").close()


def _total_bytes(model: Model) -> int:
    return sum(
        math.prod(tensor.shape) * 8
        for graph in model.graphs.values()
        for tensor in graph.tensors.values()
    )


def _check_secret(model: Model) -> None:
    for graph in model.graphs.values():
        for tensor in graph.tensors.values():
            if tensor.data is None or tensor.spec.nbytes > _MOST_PREPARED:
                continue
            if _SECRET[:8] in tensor.stored().tobytes():
                raise FaultError(f"tensor {tensor.name} holds data from outside the model's folder")


def _rejected(error: DovetailError) -> Outcome:
    str(error).encode()  # a command prints it
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError):
            return _found(cause)
        cause = cause.__cause__ or cause.__context__
    return Outcome(error.code)


def _found(error: BaseException) -> Outcome:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if SOURCES in f.filename] or frames[-1:]
    place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"
    detail = "".join(traceback.format_exception(error))
    return Outcome(f"{type(error).__name__} at {place}", True, detail=detail)


def _reset_peak() -> int:
    """Reset the process's peak of memory to its present use, and return that in bytes."""
    with suppress(OSError):  # where it is not allowed, peaks are those since the process started
        Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(field: str) -> int:
    text = Path("/proc/self/status").read_text()
    return int(text.split(f"{field}:")[1].split()[0]) * 1024


def memory_in_use() -> tuple[int, int]:
    """Return the resident and the virtual size of this process, in bytes."""
    return _status("VmRSS"), _status("VmSize")
