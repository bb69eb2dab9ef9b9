"""The backends: plans of kernels that compute on integers, for the nodes that a processor takes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, ClassVar

from msgspec.structs import replace

from dovetail.container import WeightStore
from dovetail.ops import CheckedGraph, NodeView, OpRegistry
from dovetail.runtime.base import ContextBase
from dovetail.runtime.contract import (
    Capabilities,
    Configs,
    DeviceInfo,
    Fingerprint,
    FloatPrecision,
    Platform,
    Prepared,
    PrepareRequest,
    Support,
)
from dovetail.runtime.plan import (
    Graphs,
    KernelRegistry,
    PlanBackend,
    PlanContext,
    rounded,
    widened,
    with_package_kernels,
)
from dovetail_htp import types
from dovetail_htp.configs import HtpContext, HtpDevice, HtpFile, HtpGraph, HtpOptions
from dovetail_htp.estimates import StepCounter
from dovetail_htp.processors import (
    FAMILIES,
    Family,
    Processor,
    newer_socs,
    processor,
    require_weight_sharing,
)
from dovetail_htp.verdicts import computes_on_floats, reject_declined, verdict
from dovetail_numpy.integer.fixed import Requantization, definitions
from dovetail_numpy.integer.one_grid import moves_on_one_grid
from dovetail_numpy.integer.repeated import without_repeated_conversions
from dovetail_numpy.integer.steps import definition_kernels
from dovetail_onednn import about, choose_engine, usable_processors
from dovetail_opset import STANDARD

log = logging.getLogger("dovetail.htp")


class HtpBackend(PlanBackend):
    """Emulates an HTP: runs what its tables allow, on stored integers, by their definition.

    Args:
        ops: The op registry of the handle.
        options: Its options.

    Raises:
        PluginError: The chosen engine cannot be used.
        ConfigError: The architecture is unknown.
    """

    name: ClassVar[str] = "htp"
    dist: ClassVar[str] = "dovetail-htp"
    configs: ClassVar[Configs] = Configs(HtpOptions, HtpDevice, HtpContext, HtpGraph, HtpFile)
    options: HtpOptions

    def __init__(self, ops: OpRegistry, options: HtpOptions) -> None:
        engine = choose_engine("htp", options.engine)
        if options.requantization is not Requantization.FLOAT:
            own = definition_kernels(definitions(options.requantization)).for_backend("htp")
            engine = replace(engine, kernels=own.with_fallback(engine.kernels))
        super().__init__(ops, options, engine)
        self.num_threads = options.num_threads
        self._warned: set[str] = set()  # graphs whose nodes on floats were reported
        self.target(HtpDevice())  # a wrong architecture is an error now

    @property
    def family(self) -> Family:
        """The emulated family."""
        return FAMILIES[self.name]

    @classmethod
    def type_table(cls, arch: str | None = None) -> Mapping[str, tuple[str, ...]]:
        """Return the combinations of types of each op, in words.

        Raises:
            ConfigError: The family does not have this architecture.
        """
        last = None if arch is None else processor(FAMILIES[cls.name], arch, HtpDevice()).arch
        return {
            op: tuple(str(r) for r in types.rows(cls.name, op) if last is None or r.since <= last)
            for op in types.ops(cls.name)
        }

    def target(self, device: HtpDevice) -> Processor:
        """Return the emulated processor.

        Raises:
            ConfigError: Options and device contradict each other.
        """
        return processor(self.family, self.options.arch, device)

    def capabilities(self) -> Capabilities:
        """Return what plans can do, and that profiles count the processor's I/O buffers."""
        is_htp = bool(self.family.vtcm_mb)  # the others have no documented rule
        return replace(super().capabilities(), emulates_io_buffers=is_htp)

    def open_context(self, device: Any, config: Any, weights: WeightStore) -> PlanContext:
        """Return a context.

        Raises:
            ConfigError: Options and device contradict each other, or the processor does not share
                weights.
        """
        target = self.target(device)
        for number in newer_socs(device):
            text = "SoC %d is not in the tables: it is emulated as '%s' with %d MB of VTCM"
            log.warning(text, number, target, device.vtcm_mb or target.vtcm_bytes // 2**20)
        if isinstance(config, HtpContext) and config.weight_sharing_enabled:
            require_weight_sharing(target)
        return super().open_context(device, config, weights)

    def validate(self, node: NodeView, device: Any, config: Any) -> Support:
        """Support what the tables allow and the definition covers; see `verdict`."""
        return verdict(node, self.target(device), lambda: self._has_package_kernel(node))

    def step_counter(self, device: Any, config: Any, graphs: Graphs | None) -> StepCounter:
        """Return what counts saturated results, and estimates cycles."""
        if not self.family.vtcm_mb:
            return StepCounter(0, None)
        # a graph may be restored without settings
        of_graph = config.vtcm_mb if isinstance(config, HtpGraph) else 0
        own = (of_graph or device.vtcm_mb) * 2**20
        return StepCounter(own or self.target(device).vtcm_bytes, graphs)

    def _has_package_kernel(self, node: NodeView) -> bool:
        if node.package == STANDARD:
            return False
        found = with_package_kernels(self.engine.kernels, {node.package}, self.ops)
        kernel = found.find(node)
        return kernel is not None and kernel is not found.find_real(node)  # that one simulates

    def prepare(
        self, graph: CheckedGraph, request: PrepareRequest, context: ContextBase
    ) -> Prepared:
        """Prepare a graph, and log a warning if nodes of it compute on floats.

        There is one warning for each name: tools that run nodes alone prepare graphs many times.
        """
        count = 0 if graph.where in self._warned else sum(map(computes_on_floats, graph.nodes))
        if count:
            self._warned.add(graph.where)
            log.warning(
                "%s: %d of %d nodes compute on floats, for which '%s' defines no exact results "
                "(see docs/htp_arithmetic.md); quantize the model to compute on integers",
                graph.where,
                count,
                len(graph.nodes),
                self.name,
            )
        return super().prepare(graph, request, context)

    def adapted(self, graph: CheckedGraph) -> CheckedGraph:
        """Return the graph with float32 for float16; results of steps are rounded to float16.

        It has no repeated conversions, and moves of integers are on one grid.
        """
        if STANDARD not in graph.packages:
            return graph
        cast, reshape = (self.ops.find(STANDARD, op) for op in ("Cast", "Reshape"))
        graph = without_repeated_conversions(graph, cast)
        graph = moves_on_one_grid(graph, reshape, self.engine.kernels.runs_on_integers)
        wide = widened(graph, cast)
        return graph if wide is graph else rounded(wide, graph, self.kernels(wide), cast)

    def kernels(self, graph: CheckedGraph) -> KernelRegistry:
        """Return the kernels for a graph; see `reject_declined` for nodes of op packages.

        Raises:
            PluginError: Kernels of an op package cannot be loaded.
        """
        ops = {(view.package, view.op_type) for view in graph.nodes if view.package != STANDARD}
        last = KernelRegistry(self.name)
        for package, op_type in ops:
            last.register(package, op_type, quantized=True)(reject_declined)
        return super().kernels(graph).with_fallback(last)

    def float_precision(self, config: Any) -> FloatPrecision:
        """Return half precision, the widest in which the emulated processors compute."""
        return FloatPrecision.FLOAT16

    def fingerprint(self, device: Any) -> Fingerprint:
        """Return the facts of every plan, and the emulated processor."""
        facts = super().fingerprint(device).facts
        return Fingerprint({**facts, "processor": str(self.target(device))})

    def platform(self) -> Platform:
        """Return the emulated processor, and lines on the engine."""
        target = self.target(HtpDevice())
        emulated = DeviceInfo(f"emulator of {target}", usable_processors())
        return Platform((emulated,), version(self.dist), (f"emulates {target}", *about()))


class DspBackend(HtpBackend):
    """Emulates a Hexagon DSP without an HTP: v65, v66."""

    name: ClassVar[str] = "dsp"


class HtaBackend(HtpBackend):
    """Emulates a Hexagon Tensor Accelerator."""

    name: ClassVar[str] = "hta"


class LpaiBackend(HtpBackend):
    """Emulates a low-power AI processor."""

    name: ClassVar[str] = "lpai"
