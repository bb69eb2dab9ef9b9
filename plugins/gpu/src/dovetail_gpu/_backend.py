"""The backend `gpu`: plans of kernels on an OpenCL device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import version
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from dovetail.errors import ContainerError, UnsupportedOpError
from dovetail.ops import CheckedGraph, NodeView, OpRegistry
from dovetail.runtime.base import ContextBase
from dovetail.runtime.config import changed_settings
from dovetail.runtime.contract import (
    Capabilities,
    Configs,
    DeviceInfo,
    FloatPrecision,
    Platform,
    Prepared,
    PrepareRequest,
    Support,
)
from dovetail.runtime.plan import (
    Engine,
    KernelCall,
    KernelRegistry,
    PlanBackend,
    RecipeError,
    with_package_kernels,
)
from dovetail_gpu.computing import Computing, begin, current, settle
from dovetail_gpu.driver import choose_device, devices
from dovetail_gpu.engine import ClEngine
from dovetail_gpu.kernels import kernels
from dovetail_gpu.options import GpuFile, GpuGraph, GpuOptions, PerfHint, PrecisionMode, Recorded
from dovetail_gpu.transfers import BUILDERS, record_layout, reorder
from dovetail_gpu.types import type_rows
from dovetail_gpu.verdicts import verdict
from dovetail_opset import STANDARD

_ROUNDS = {PerfHint.HIGH: 3, PerfHint.NORMAL: 1, PerfHint.LOW: 0}  # of each variant


class GpuBackend(PlanBackend):
    """Runs float32 and float16 networks on an OpenCL device.

    Args:
        ops: The op registry of the handle.
        options: Its options.

    Raises:
        PluginError: There is no pyopencl, driver or such device.
        BackendError: The device cannot be used.
    """

    name: ClassVar[str] = "gpu"
    dist: ClassVar[str] = "dovetail-gpu"
    configs: ClassVar[Configs] = Configs(backend=GpuOptions, graph=GpuGraph, sdk=GpuFile)
    is_native: bool = True
    options: GpuOptions

    def __init__(self, ops: OpRegistry, options: GpuOptions) -> None:
        device = choose_device(options.device)
        self.opencl = ClEngine(device, options.kernel_repo_path, _ROUNDS[options.perf_hint])
        engine = Engine(
            kernels(),
            reorder,
            builders=BUILDERS,
            record_layout=record_layout,
            name=device.key,
            dists=(self.dist, "pyopencl"),
            settle=settle,
            begin=begin,
            lane=Computing.another,
            rehearses=True,
        )
        super().__init__(ops, options, engine)
        self.is_native = not device.is_cpu  # a driver for processors is slower than `cpu`

    def capabilities(self) -> Capabilities:
        """Return what plans can do on the device, with its limits; each run has its own queue."""
        found, device = super().capabilities(), self.opencl.device
        efficiency = found.power_efficiency if device.is_cpu else 0.6
        return replace(
            found, overlap=True, max_tensor_bytes=device.max_bytes, power_efficiency=efficiency
        )

    def float_precision(self, config: Any) -> FloatPrecision:
        """Return half precision if a graph's settings store real numbers in it."""
        mode = config.precision_mode if isinstance(config, GpuGraph) else GpuGraph().precision_mode
        is_half = mode in (PrecisionMode.FP16, PrecisionMode.HYBRID)
        return FloatPrecision.FLOAT16 if is_half else FloatPrecision.FLOAT32

    def validate(self, node: NodeView, device: Any, config: Any) -> Support:
        """Support what a kernel runs; see `verdict`."""
        with self._settings(config):
            kernel = self._kernels_of(node.package).find(node)
            return verdict(node, kernel, self.opencl.device, self.name)

    @classmethod
    def type_table(cls, arch: str | None = None) -> Mapping[str, tuple[str, ...]]:
        """Return the combinations of types of each op, in words; see `BackendBase`."""
        return {op: tuple(map(str, rows)) for op, rows in type_rows().items()}

    def _kernels_of(self, package: str) -> KernelRegistry:
        """Return the kernels for the ops of a package."""
        packages = () if package == STANDARD else (package,)
        return with_package_kernels(self.engine.kernels, packages, self.ops)

    def _settings(self, config: Any) -> Computing:
        return Computing(self.opencl, config if isinstance(config, GpuGraph) else GpuGraph())

    @contextmanager
    def computing(self, config: Any, threads: int) -> Iterator[AbstractContextManager[None]]:
        """Enter the context in which a graph is prepared, with its settings."""
        found = self._settings(config)
        with found:
            yield found

    def shares(self, config: Any) -> bool:
        """Return whether tensors share memory; see `GpuGraph`."""
        return not (isinstance(config, GpuGraph) and config.disable_memory_optimizations)

    def recorded(self, computing: Any) -> dict[str, Any]:
        """Return settings and tuning of a graph, for images."""
        found: dict[str, Any] = msgspec.to_builtins(
            Recorded(computing.config, dict(sorted(computing.choices.items())))
        )
        return found

    def restored(self, computing: Any, recorded: Mapping[str, Any]) -> None:
        """Use settings and tuning of an image.

        Raises:
            ContainerError: They are damaged, or the graph has other settings.
        """
        try:
            found = msgspec.convert(recorded, Recorded)
        except msgspec.ValidationError as error:
            raise RecipeError(f"invalid settings of the backend 'gpu': {error}") from error
        if computing.config not in (GpuGraph(), found.config):
            raise ContainerError(
                f"the image has the settings {changed_settings(found.config)}, and the graph "
                f"{changed_settings(computing.config)}",
                code="CONTAINER_INCOMPATIBLE",
                hint="prepare the model again, or restore the image without settings of the graph",
            )
        computing.config = found.config
        computing.choices = dict(found.choices)

    def prepare(
        self, graph: CheckedGraph, request: PrepareRequest, context: ContextBase
    ) -> Prepared:
        """Prepare a graph, and keep the variants of kernels that were chosen."""
        prepared = super().prepare(graph, request, context)
        self.opencl.tuning.save()
        return prepared

    def kernels(self, graph: CheckedGraph) -> KernelRegistry:
        """Return the kernels for a graph; nodes that they decline are errors.

        Raises:
            PluginError: Kernels of an op package cannot be loaded.
        """
        found = super().kernels(graph)
        if current().config.disable_node_optimizations:
            found = found.without_fusing()
        last = KernelRegistry(self.name)
        for package, op_type in {(view.package, view.op_type) for view in graph.nodes}:
            last.register(package, op_type)(_reject)
        return found.with_fallback(last)

    def platform(self) -> Platform:
        """Return the devices, and lines on their drivers."""
        found = devices()
        notes = [f"{device}: {device.version}" for device in found]
        notes += [
            f"{device} has no cl_khr_fp16: float16 is stored, and computed in float32"
            for device in found
            if not device.has_half
        ]
        infos = tuple(DeviceInfo(str(device), device.units) for device in found)
        return Platform(infos, version(self.dist), tuple(notes))


def _reject(call: KernelCall) -> None:
    """Raise for a node that no kernel of the device runs."""
    types = " ".join(spec.dtype.name for spec in (*call.head.ins, *call.head.outs) if spec)
    raise UnsupportedOpError(
        f"no OpenCL kernel runs {call.head.op_type} with {types}",
        where=call.head.node.where,
        hint="run the node on another backend: --backend hetero:gpu,cpu",
    )
