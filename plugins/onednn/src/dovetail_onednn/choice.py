"""Choice of the engine: oneDNN where it can be used, NumPy everywhere."""

from __future__ import annotations

import enum
import logging

from dovetail.errors import DovetailError
from dovetail.runtime.plan import PLAN_BUILDERS, Engine, KernelRegistry, OnIntegers
from dovetail_onednn.known_answer import Kind, checked_library, is_right
from dovetail_onednn.layout_recipes import record_layout
from dovetail_onednn.precision import Precision
from dovetail_onednn.recipes import BUILDERS
from dovetail_onednn.reorder import reorder
from dovetail_onednn.threads import Activity, Computing, threads_note
from dovetail_onednn.work import is_for_one_thread

_DISTS = ("dovetail-numpy", "dovetail-onednn")
_LOG = logging.getLogger("dovetail.onednn")


class EngineChoice(enum.Enum):
    """Engines to choose from; AUTO is oneDNN where it is installed and passes its check."""

    AUTO = "auto"
    ONEDNN = "onednn"
    NUMPY = "numpy"


def choose_engine(
    backend: str, choice: EngineChoice, on_integers: OnIntegers = lambda _: True
) -> Engine:
    """Return the chosen engine.

    Args:
        backend: Name of the backend that uses it.
        choice: The choice.
        on_integers: Returns whether a quantized node is computed on its stored integers; if not,
            it is simulated.

    Raises:
        PluginError: ONEDNN is the choice and cannot be used.
    """
    plain = Engine(
        KernelRegistry(
            backend,
            on_integers,
            lambda: _numpy_kernels().real,
            lambda: _numpy_kernels().quantized,
        ),
        computing=lambda _: Activity(),
        dists=_DISTS[:1],
    )
    if choice is EngineChoice.NUMPY:
        return plain
    is_demanded = choice is EngineChoice.ONEDNN
    try:
        library = checked_library((Kind.PRODUCT,))  # the kernels check the rest
    except DovetailError as error:
        if is_demanded:
            raise
        _LOG.info("computing with NumPy alone: %s", error.message)
        return plain
    # The result is kept for kernels and images; the time belongs to the backend, not to a graph.
    is_right(Kind.CONVOLUTION, strict=is_demanded)
    kernels = onednn_kernels(backend, on_integers, strict=is_demanded)
    return Engine(
        kernels.with_fallback(plain.kernels),
        reorder,
        Computing,
        is_for_one_thread,
        PLAN_BUILDERS.joined(BUILDERS),
        record_layout,
        library.fingerprint,
        library.own_threads,
        _DISTS,
    )


def is_onednn(engine: Engine) -> bool:
    """Return whether an engine is oneDNN."""
    return engine.reorder is reorder


def onednn_kernels(
    backend: str, on_integers: OnIntegers = lambda _: True, *, strict: bool = True
) -> KernelRegistry:
    """Return the kernels on oneDNN for ops of the standard op set.

    The library must have passed its check of products. Convolutions are checked at the first use of
    the kernels.

    Args:
        backend: Name of the backend that uses the kernels.
        on_integers: As in `choose_engine`.
        strict: Whether a failed check is an error, a PluginError; if not, there are no kernels of
            convolutions.
    """
    return KernelRegistry(
        backend,
        on_integers,
        lambda: _real_kernels(backend, strict=strict).real,
        lambda: _quantized_kernels(backend, strict=strict).quantized,
    )


# Kernels are imported at the first use: a process that only restores graphs does without any, one
# without quantized nodes does without those for integers.
def _numpy_kernels() -> KernelRegistry:
    from dovetail_numpy import KERNELS

    return KERNELS


def _real_kernels(backend: str, *, strict: bool) -> KernelRegistry:
    from dovetail_onednn.kernels import real_kernels

    return real_kernels(backend, strict=strict)


def _quantized_kernels(backend: str, *, strict: bool) -> KernelRegistry:
    from dovetail_onednn.quantized.kernels import quantized_kernels

    return quantized_kernels(backend, strict=strict)


def choose_precision(choice: EngineChoice, wanted: Precision) -> Precision:
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
