"""The backend `cpu`: plans of kernels; an op without one runs by its reference."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import version
from typing import Annotated, Any, ClassVar

import msgspec

from dovetail.ir import DType, Spec, Tensor
from dovetail.ir.text import encoding_text
from dovetail.ops import CheckedGraph, NodeView, OpRegistry
from dovetail.runtime.contract import (
    SUPPORTED,
    Configs,
    DeviceInfo,
    FloatPrecision,
    Options,
    Platform,
    Support,
)
from dovetail.runtime.plan import OnIntegers, PlanBackend, widened, without_whole_casts
from dovetail_cpu._integers import computes_on_integers
from dovetail_cpu._simulation import with_simulated_nodes
from dovetail_onednn import (
    EngineChoice,
    Precision,
    ReleaseGil,
    about,
    choose_engine,
    choose_precision,
    computing_in,
    is_onednn,
    usable_processors,
)
from dovetail_opset import STANDARD

# Strings cannot be computed with, and values of an unknown type cannot be stored.
_UNSUPPORTED = (DType.STRING, DType.UNDEFINED)
_ALLOWED = tuple(d.name for d in DType if d not in _UNSUPPORTED)


class MemoryPlan(enum.Enum):
    """Allocation of intermediate tensors."""

    ARENA = "arena"
    PLAIN = "plain"


class Quantized(enum.Enum):
    """Arithmetic of quantized nodes."""

    INTEGER = "integer"
    SIMULATE = "simulate"


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
        quantized: Arithmetic of quantized nodes. INTEGER: stored integers, with the same bits on
            every engine and processor, for the ops and types that the SDK's CPU backend has.
            SIMULATE, and INTEGER for the others: float32 between dequantizing and quantizing.
    """

    engine: EngineChoice = EngineChoice.AUTO
    num_threads: Annotated[int, msgspec.Meta(ge=1, le=1024)] | None = None
    release_gil: ReleaseGil = ReleaseGil.AUTO
    precision: Precision = Precision.FLOAT32
    memory: MemoryPlan = MemoryPlan.ARENA
    quantized: Quantized = Quantized.INTEGER


_ON_INTEGERS: dict[Quantized, OnIntegers] = {
    Quantized.INTEGER: computes_on_integers,
    Quantized.SIMULATE: lambda _: False,
}


class CpuBackend(PlanBackend):
    """Runs any op of any package on the processor of this machine.

    Args:
        ops: The op registry of the handle.
        options: Its options.

    Raises:
        PluginError: The chosen engine cannot be used.
    """

    name: ClassVar[str] = "cpu"
    dist: ClassVar[str] = "dovetail-cpu"
    configs: ClassVar[Configs] = Configs(backend=CpuOptions)
    is_native: bool = True
    options: CpuOptions

    def __init__(self, ops: OpRegistry, options: CpuOptions) -> None:
        on_integers = _ON_INTEGERS[options.quantized]
        super().__init__(ops, options, choose_engine(self.name, options.engine, on_integers))
        self.num_threads = options.num_threads
        self.shares_memory = options.memory is MemoryPlan.ARENA
        self.precision = choose_precision(options.engine, options.precision)

    def validate(self, node: NodeView, device: Any, config: Any) -> Support:
        """Support every op whose tensors hold numbers."""
        for where, spec in _specs_of(node):
            if spec.dtype in _UNSUPPORTED:
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

    def adapted(self, graph: CheckedGraph) -> CheckedGraph:
        """Return the graph with float32 for float16, without casts of whole numbers.

        It has no repeated conversions, and moves of integers are on one grid. Dynamically quantized
        activations are multiplied by stored bytes.
        """
        if STANDARD not in graph.packages:
            return graph
        # imported here: a process that only restores graphs does without definitions
        from dovetail_numpy.integer.one_grid import moves_on_one_grid
        from dovetail_numpy.integer.repeated import without_repeated_conversions

        cast, reshape = (self.ops.find(STANDARD, op) for op in ("Cast", "Reshape"))
        is_on_integers = self.options.quantized is Quantized.INTEGER and is_onednn(self.engine)
        if is_on_integers and _has_bytes(graph):
            from dovetail_onednn.dynamic_graph import with_dynamic_products

            graph = with_dynamic_products(graph, cast)
        found = widened(without_whole_casts(graph, cast), cast)
        if is_onednn(self.engine):
            found = with_simulated_nodes(found, self.ops, self.engine.kernels)
        found = without_repeated_conversions(found, cast)
        return moves_on_one_grid(found, reshape, self.engine.kernels.runs_on_integers)

    def float_precision(self, config: Any) -> FloatPrecision:
        """Return the type that the option `precision` allows, where it takes effect."""
        is_narrow = self.precision is not Precision.FLOAT32
        return FloatPrecision.FLOAT16 if is_narrow else FloatPrecision.FLOAT32

    @contextmanager
    def computing(self, config: Any, threads: int) -> Iterator[AbstractContextManager[None]]:
        """Enter the context in which a graph is prepared, in its precision.

        Args:
            config: Settings of the graph.
            threads: Number of threads that compute the graph.
        """
        with (
            super().computing(config, threads) as found,
            computing_in(self.precision),
        ):
            yield found

    def platform(self) -> Platform:
        """Return this machine, and lines on the engine."""
        host = DeviceInfo("host", usable_processors())
        return Platform((host,), version(self.dist), about())


def _has_bytes(graph: CheckedGraph) -> bool:
    """Return whether a node reads bytes, as those after a dynamic quantization do."""
    specs = (spec for view in graph.nodes for spec in view.ins)
    return any(spec is not None and spec.dtype is DType.UINT_8 for spec in specs)


def _specs_of(view: NodeView) -> Iterator[tuple[str, Spec]]:
    yield from view.named_specs()
    for name, param in view.node.params.items():
        if isinstance(param, Tensor):
            yield f"param {name}", param.spec
