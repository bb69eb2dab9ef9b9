"""Options of the backend, with the names of the SDK's GPU backend."""

from __future__ import annotations

import enum

from dovetail.runtime.config import GraphConfig
from dovetail.runtime.contract import Options


class PrecisionMode(enum.Enum):
    """The type in which real numbers are stored on the device."""

    FP32 = "fp32"
    FP16 = "fp16"
    HYBRID = "hybrid"
    USER_PROVIDED = "user_provided"


class PerfHint(enum.Enum):
    """Effort of the device."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


class GpuOptions(Options, frozen=True):
    """Options of the backend `gpu`.

    Attributes:
        device: The OpenCL device: its number, or part of its name or of its platform's; by default
            the first, GPUs before processors. `dovetail doctor` lists them.
        kernel_repo_path: Folder of compiled programs and tuning; by default in the user's cache.
        perf_hint: HIGH: the fastest variants of kernels are found by measurement. NORMAL: the same,
            measured shorter. LOW: variants are chosen by rules, without measurement.
    """

    device: str | None = None
    kernel_repo_path: str | None = None
    perf_hint: PerfHint = PerfHint.HIGH


class GpuGraph(GraphConfig, frozen=True):
    """Settings of a graph.

    Attributes:
        precision_mode: The type in which real numbers are stored. FP32 and FP16: that type, for all
            tensors. HYBRID: half precision, computed in float32. USER_PROVIDED: the graph's types.
        disable_memory_optimizations: Each tensor has memory of its own.
        disable_node_optimizations: Each node runs by a kernel of its own: nothing is fused.
        disable_queue_recording: Accepted; commands are not recorded.
    """

    precision_mode: PrecisionMode = PrecisionMode.USER_PROVIDED
    disable_memory_optimizations: bool = False
    disable_node_optimizations: bool = False
    disable_queue_recording: bool = False
