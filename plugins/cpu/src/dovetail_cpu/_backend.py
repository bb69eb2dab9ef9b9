"""The backend `cpu`: plans of kernels; an op without one runs by its reference."""

from __future__ import annotations

import contextvars
import enum
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Annotated, ClassVar

import msgspec
import numpy as np

from dovetail.container import WeightStore
from dovetail.errors import BackendError
from dovetail.ir import Array, DType, Graph, Spec, Tensor
from dovetail.ops import OpRegistry
from dovetail.runtime.contract import (
    SUPPORTED,
    Capabilities,
    Image,
    NodeView,
    Options,
    Prepared,
    RunControl,
    Support,
)
from dovetail.runtime.plan import Plan, PlanPrepared, build_plan, with_package_kernels
from dovetail_cpu._engine import EngineChoice, about, engine, precision
from dovetail_onednn import Precision, ReleaseGil, computing_in

# A string is no number to compute with, and a type that is not known cannot be stored.
_REFUSED = (DType.STRING, DType.UNDEFINED)
_ALLOWED = tuple(d.name for d in DType if d not in _REFUSED)

# Elements that NumPy gathers where the rows of operands are short, before it computes. It allocates
# its buffers at every call: at its default of 8192 they cost more than they save.
_BUFFER = 1024


class MemoryPlan(enum.Enum):
    """How intermediate tensors lie in memory."""

    ARENA = "arena"
    PLAIN = "plain"


class CpuOptions(Options, frozen=True):
    """Options of the backend `cpu`.

    Attributes:
        engine: What computes. AUTO is oneDNN for what it has kernels for, where it is installed and
            gives the right answers here, else NumPy.
        num_threads: Threads that oneDNN computes with; by default one for each core. NumPy's own
            are set for a process, by OPENBLAS_NUM_THREADS.
        release_gil: Whether other Python threads run while a step of oneDNN does. AUTO: while long
            ones do, and while another session computes.
        precision: What oneDNN may round to, where it is quicker so; a permission. BF16 takes effect
            on processors with AVX-512 and BF16: factors of convolutions and products, and results
            from step to step.
        memory: How intermediate tensors lie. ARENA: those that do not live at once share places.
            PLAIN: each has its own, or is a view of one that has: all are there after a run.
        fuse: Whether a kernel may run the nodes that follow it too. Without it every tensor of the
            graph is computed on its own and can be watched.
    """

    engine: EngineChoice = EngineChoice.AUTO
    num_threads: Annotated[int, msgspec.Meta(ge=1, le=1024)] | None = None
    release_gil: ReleaseGil = ReleaseGil.AUTO
    precision: Precision = Precision.FLOAT32
    memory: MemoryPlan = MemoryPlan.ARENA
    fuse: bool = True


class CpuBackend:
    """Runs any op of any package on the machine at hand.

    Args:
        ops: The op registry of the session.
    """

    name: ClassVar[str] = "cpu"
    options_type: ClassVar[type[Options]] = CpuOptions

    def __init__(self, ops: OpRegistry) -> None:
        self._ops = ops

    def capabilities(self) -> Capabilities:
        """Return what it can do: everything but context binaries and updates of tensors."""
        return Capabilities(
            op_packages=True,
            cancel=True,
            watch=True,
            asynchronous=True,
            priority=True,
            memory_handles=True,
        )

    def validate(self, node: NodeView) -> Support:
        """Return yes to every op, unless a tensor of it has a type that holds no numbers."""
        for where, spec in _specs_of(node):
            if spec.dtype in _REFUSED:
                return Support(
                    ok=False,
                    rule="dtype",
                    field=f"{where}.dtype",
                    found=spec.dtype.name,
                    allowed=_ALLOWED,
                    rewrite="keep text outside the graph and pass what is computed from it",
                )
        return SUPPORTED

    def prepare(self, graph: Graph, options: CpuOptions, weights: WeightStore) -> Prepared:
        """Create a graph ready to run; see `Backend.prepare`.

        Raises:
            PluginError: Kernels of an op package cannot be loaded, or the chosen engine.
        """
        chosen = engine(options.engine)
        computing = chosen.computing(options.num_threads)
        packages = {node.package for node in graph.nodes}
        with computing, computing_in(precision(options.engine, options.precision)):
            plan = build_plan(
                graph,
                self._ops,
                with_package_kernels(chosen.kernels, packages, self._ops),
                weights,
                options,
                reorder=chosen.reorder,
                fuse=options.fuse,
            )
            return CpuPrepared(plan, computing, shares=options.memory is MemoryPlan.ARENA)

    def doctor(self) -> tuple[str, ...]:
        """Return which engine computes, for `dovetail doctor`."""
        return about()

    def restore(self, image: Image, weights: WeightStore) -> Prepared:
        """Refuses: there are no context binaries of this backend.

        Raises:
            BackendError: Always.
        """
        raise BackendError(
            "the backend 'cpu' does not restore context binaries",
            code="CONTEXT_ERROR_UNSUPPORTED_FEATURE",
            hint="compose the context from the model; preparing it is quick",
        )


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
        # NumPy's settings are the context's: entering one that has them is quicker than making them
        self._settings = contextvars.copy_context()
        self._settings.run(_set_numpy)
        super().__init__(plan, shares=shares)

    def run(
        self, inputs: Mapping[str, Array], outputs: Mapping[str, Array], control: RunControl
    ) -> None:
        """Execute the plan once; infinities and NaN are results and raise no warnings."""
        with self._computing:
            self._settings.run(super().run, inputs, outputs, control)


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
