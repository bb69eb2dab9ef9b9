"""Choice of the engine: oneDNN where it can be used, NumPy everywhere."""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from dovetail.errors import DovetailError
from dovetail.ops import CheckedGraph
from dovetail.runtime.plan import PLAN_BUILDERS, Builders, KernelRegistry, RecordLayout, Reorder
from dovetail_cpu.kernels import KERNELS
from dovetail_onednn import (
    BUILDERS,
    Activity,
    Computing,
    Kind,
    Precision,
    checked_library,
    is_for_one_thread,
    onednn_kernels,
    record_layout,
    reorder,
    threads_note,
)

_LOG = logging.getLogger("dovetail.cpu")


class EngineChoice(enum.Enum):
    """Engines to choose from; AUTO is oneDNN where it is installed and passes its check."""

    AUTO = "auto"
    ONEDNN = "onednn"
    NUMPY = "numpy"


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine's kernels.

    Attributes:
        kernels: For the standard op set.
        reorder: Converts between their layouts; None if there is only one.
        computing: Returns the context in which a graph is prepared and run, once at a time, by a
            number of threads; None is one for each processor.
        is_for_one_thread: Returns whether a graph has so little work that one thread computes it.
        builders: Builders of its recorded steps.
        record_layout: Records its layouts.
        name: Its name, version and instruction set.
        threads: Number of threads by default.
    """

    kernels: KernelRegistry
    reorder: Reorder | None = None
    computing: Callable[[int | None], AbstractContextManager[None]] = lambda _: Activity()
    is_for_one_thread: Callable[[CheckedGraph], bool] = lambda _: False
    builders: Builders = PLAN_BUILDERS
    record_layout: RecordLayout | None = None
    name: str = "numpy"
    threads: int = 1


def engine(choice: EngineChoice) -> Engine:
    """Return the chosen engine.

    Raises:
        PluginError: ONEDNN is the choice and cannot be used.
    """
    if choice is EngineChoice.NUMPY:
        return Engine(KERNELS)
    is_demanded = choice is EngineChoice.ONEDNN
    try:
        library = checked_library((Kind.PRODUCT,))  # the kernels check the rest
    except DovetailError as error:
        if is_demanded:
            raise
        _LOG.info("computing with NumPy alone: %s", error.message)
        return Engine(KERNELS)
    kernels = onednn_kernels(KERNELS.backend, strict=is_demanded)
    return Engine(
        kernels.with_fallback(KERNELS),
        reorder,
        Computing,
        is_for_one_thread,
        PLAN_BUILDERS.joined(BUILDERS),
        record_layout,
        library.fingerprint,
        library.own_threads,
    )


def precision(choice: EngineChoice, wanted: Precision) -> Precision:
    """Return the precision to compute in: float32 where narrower results would be wrong.

    Raises:
        PluginError: ONEDNN is the choice and fails its check.
    """
    if wanted is not Precision.BF16 or choice is EngineChoice.NUMPY:
        return wanted
    try:
        checked_library((Kind.BFLOAT16,))
    except DovetailError as error:
        if choice is EngineChoice.ONEDNN:
            raise
        _LOG.info("computing in float32: %s", error.message)
        return Precision.FLOAT32
    return wanted


def about() -> tuple[str, ...]:
    """Return lines on the engine that AUTO chooses here, and why."""
    try:
        library = checked_library((Kind.PRODUCT,))
    except DovetailError as error:
        problems = [f"  {p.where}: {p.message} {p.hint}".rstrip() for p in error.problems]
        hint = [f"  {error.hint}"] if error.hint else []
        return (f"engine numpy: {error.message}", *problems, *hint)
    name = f"engine onednn {library.version_text}, {library.instruction_set_name}"
    try:
        checked_library()
    except DovetailError as error:
        return f"{name}, but numpy for some kernels: {error.message}", f"  {error.hint}"
    note = threads_note(library)
    return (f"{name}, known results correct", f"  {library.path}", *([f"  {note}"] if note else ()))
