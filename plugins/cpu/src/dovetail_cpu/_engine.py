"""Which engine computes: oneDNN where it can be had, NumPy everywhere."""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from dovetail.errors import DovetailError
from dovetail.runtime.plan import KernelRegistry, Reorder
from dovetail_cpu.kernels import KERNELS
from dovetail_onednn import (
    Activity,
    Computing,
    Kind,
    Precision,
    checked_library,
    onednn_kernels,
    reorder,
)

_LOG = logging.getLogger("dovetail.cpu")


class EngineChoice(enum.Enum):
    """The engines to choose from; AUTO is oneDNN where it is there and passes its check."""

    AUTO = "auto"
    ONEDNN = "onednn"
    NUMPY = "numpy"


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine's kernels.

    Attributes:
        kernels: For the standard op set.
        reorder: What converts between their layouts; None where there is but one.
        computing: Gives what is entered to prepare and to run, once at a time, for the number of
            threads to compute with; None is as many as there are.
    """

    kernels: KernelRegistry
    reorder: Reorder | None = None
    computing: Callable[[int | None], AbstractContextManager[None]] = lambda _: Activity()


def engine(choice: EngineChoice) -> Engine:
    """Return the chosen engine.

    Raises:
        PluginError: ONEDNN was asked for and cannot be used.
    """
    if choice is EngineChoice.NUMPY:
        return Engine(KERNELS)
    is_demanded = choice is EngineChoice.ONEDNN
    try:
        checked_library((Kind.PRODUCT,))  # its kernels see to the rest
    except DovetailError as error:
        if is_demanded:
            raise
        _LOG.info("computing with NumPy alone: %s", error.message)
        return Engine(KERNELS)
    kernels = onednn_kernels(KERNELS.backend, strict=is_demanded)
    return Engine(kernels.with_fallback(KERNELS), reorder, Computing)


def precision(choice: EngineChoice, wanted: Precision) -> Precision:
    """Return the precision to compute in: float32 where a narrower one is not computed right.

    Raises:
        PluginError: ONEDNN was asked for and fails.
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
    """Return what would compute here, and why."""
    try:
        library = checked_library((Kind.PRODUCT,))
    except DovetailError as error:
        problems = [f"  {p.where}: {p.message} {p.hint}".rstrip() for p in error.problems]
        return (f"engine numpy: {error.message}", *problems, f"  {error.hint}")
    name = f"engine onednn {library.version_text}, {library.instruction_set_name}"
    try:
        checked_library()
    except DovetailError as error:
        return f"{name}, but numpy for some kernels: {error.message}", f"  {error.hint}"
    return f"{name}, known answers right", f"  {library.path}"
