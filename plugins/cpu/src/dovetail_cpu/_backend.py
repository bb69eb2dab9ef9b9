"""The backend `cpu`: plans of kernels; an op without one runs by its reference."""

from __future__ import annotations

import contextvars
import enum
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from importlib.metadata import version
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np

from dovetail.ir import DType, EncodingKind, Spec, Tensor
from dovetail.ir.text import encoding_text
from dovetail.ops import CheckedGraph, NodeView
from dovetail.runtime.base import BackendBase, ContextBase
from dovetail.runtime.contract import (
    SUPPORTED,
    Binding,
    Capabilities,
    Configs,
    DeviceInfo,
    Options,
    Platform,
    Prepared,
    PrepareRequest,
    RunControl,
    Support,
)
from dovetail.runtime.measurements import EventType, EventUnit, ProfileEvent
from dovetail.runtime.plan import Plan, PlanPrepared, build_plan, with_package_kernels
from dovetail_cpu._engine import EngineChoice, about, engine, precision
from dovetail_onednn import Precision, ReleaseGil, computing_in, usable_processors

# Strings cannot be computed with, and values of an unknown type cannot be stored.
_REFUSED = (DType.STRING, DType.UNDEFINED)
_ALLOWED = tuple(d.name for d in DType if d not in _REFUSED)

# Number of elements in NumPy's buffers, which it fills where the rows of operands are short. It
# allocates them at every call: at its default of 8192 they cost more than they save.
_BUFFER = 1024


class MemoryPlan(enum.Enum):
    """Allocation of intermediate tensors."""

    ARENA = "arena"
    PLAIN = "plain"


class CpuOptions(Options, frozen=True):
    """Options of the backend `cpu`.

    Attributes:
        engine: The library that computes. AUTO is oneDNN for the ops that it has kernels for, where
            it is installed and computes known results correctly, else NumPy.
        num_threads: Maximum number of threads of oneDNN; by default one for each processor
            that affinity mask and cgroups allow. Graphs with little work run in one. NumPy's own
            threads are set for a process, by OPENBLAS_NUM_THREADS.
        release_gil: Whether other Python threads run during a step of oneDNN. AUTO: during long
            steps, and while another session computes.
        precision: The type that oneDNN may round to where that is faster. BF16 takes effect on
            processors with AVX-512 and BF16: factors of convolutions and products, and results
            from step to step.
        memory: Allocation of intermediate tensors. ARENA: tensors that are not in use at the same
            time share memory. PLAIN: each has its own, or is a view of another tensor: all can be
            read after a run.
    """

    engine: EngineChoice = EngineChoice.AUTO
    num_threads: Annotated[int, msgspec.Meta(ge=1, le=1024)] | None = None
    release_gil: ReleaseGil = ReleaseGil.AUTO
    precision: Precision = Precision.FLOAT32
    memory: MemoryPlan = MemoryPlan.ARENA


class CpuBackend(BackendBase):
    """Runs any op of any package on the processor of this machine."""

    name: ClassVar[str] = "cpu"
    configs: ClassVar[Configs] = Configs(backend=CpuOptions)
    options: CpuOptions

    def capabilities(self) -> Capabilities:
        """Return the capabilities: all but context binaries and updates of tensors."""
        return Capabilities(
            op_packages=True,
            cancel=True,
            watch=True,
            asynchronous=True,
            priority=True,
            memory_handles=True,
            encodings=frozenset(EncodingKind) - {EncodingKind.VECTOR},
        )

    def validate(self, node: NodeView, device: Any, config: Any) -> Support:
        """Support every op whose tensors hold numbers."""
        for where, spec in _specs_of(node):
            if spec.dtype in _REFUSED:
                return Support(
                    ok=False,
                    rule="dtype",
                    field=f"{where}.dtype",
                    found=spec.dtype.name,
                    allowed=_ALLOWED,
                    rewrite="process text outside the graph and pass the resulting numbers",
                )
            if spec.encoding is not None and not spec.encoding.is_convertible:
                found = encoding_text(spec.encoding)
                return Support(ok=False, rule="encoding", field=f"{where}.encoding", found=found)
        return SUPPORTED

    def prepare(
        self, graph: CheckedGraph, request: PrepareRequest, context: ContextBase
    ) -> Prepared:
        """Prepare a graph; see `BackendContext.prepare`.

        Raises:
            PluginError: Kernels of an op package, or the chosen engine, cannot be loaded.
        """
        options = self.options
        chosen = engine(options.engine)
        computing = chosen.computing(graph, options.num_threads)
        with computing, computing_in(precision(options.engine, options.precision)):
            plan = build_plan(
                graph,
                with_package_kernels(chosen.kernels, graph.packages, self.ops),
                context.weights,
                options,
                reorder=chosen.reorder,
                control=request.control,
            )
            prepared = CpuPrepared(plan, computing, shares=options.memory is MemoryPlan.ARENA)
        if request.record is not None:
            arena = ProfileEvent(EventType.BACKEND, "arena", prepared.arena.nbytes, EventUnit.BYTES)
            steps = ProfileEvent(EventType.BACKEND, "steps", len(prepared.steps), EventUnit.COUNT)
            request.record(arena)
            request.record(steps)
        return prepared

    def platform(self) -> Platform:
        """Return this machine, and lines on the engine."""
        host = DeviceInfo("host", usable_processors())
        return Platform((host,), version("dovetail-cpu"), about())


class CpuPrepared(PlanPrepared):
    """A plan of kernels.

    Args:
        plan: The plan.
        computing: Entered around each run.
        shares: As for `PlanPrepared`.
    """

    def __init__(
        self, plan: Plan, computing: AbstractContextManager[None], *, shares: bool
    ) -> None:
        self._computing = computing
        # NumPy's settings belong to the context: entering it is faster than setting them each run
        self._settings = contextvars.copy_context()
        self._settings.run(_set_numpy)
        super().__init__(plan, shares=shares)

    def run(
        self, inputs: Mapping[str, Binding], outputs: Mapping[str, Binding], control: RunControl
    ) -> None:
        """Execute the plan once; infinities and NaN are results and raise no warnings."""
        with self._computing:
            self._settings.run(PlanPrepared.run, self, inputs, outputs, control)


def _set_numpy() -> None:
    np.seterr(all="ignore")
    np.setbufsize(_BUFFER)


def _specs_of(view: NodeView) -> Iterator[tuple[str, Spec]]:
    yield from _named("in", view.ins)
    yield from _named("out", view.outs)
    for name, param in view.node.params.items():
        if isinstance(param, Tensor):
            yield f"param {name}", param.spec


def _named(what: str, specs: Iterable[Spec | None]) -> Iterator[tuple[str, Spec]]:
    for i, spec in enumerate(specs):
        if spec is not None:
            yield f"{what}[{i}]", spec
