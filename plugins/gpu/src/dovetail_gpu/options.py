"""Options of the backend, with the names of the SDK's GPU backend.

Source: the keys of the SDK's GPU backend extensions: `graph_names`, `precision_mode`, the three
`disable_*`, `kernel_repo_path` and `perf_hint`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec

from dovetail.runtime.config import GraphConfig, SdkConfig
from dovetail.runtime.contract import Options
from dovetail.typed import NO_EFFECT

_MOST_CHOICES = 1 << 16


class PrecisionMode(enum.Enum):
    """The type in which real numbers are stored on the device."""

    FP32 = "fp32"
    FP16 = "fp16"
    HYBRID = "hybrid"
    USER_PROVIDED = "user_provided"


class PerfHint(enum.Enum):
    """Effort to find fast variants of kernels."""

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
            measured once. LOW: variants are chosen by rules, without measurement.
    """

    device: str | None = None
    kernel_repo_path: str | None = None
    perf_hint: PerfHint = PerfHint.HIGH

    @classmethod
    def without_files(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return recorded options without the folder; see `Options`."""
        return {key: value for key, value in options.items() if key != "kernel_repo_path"}


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
    disable_queue_recording: Annotated[bool, NO_EFFECT] = False


class GpuFile(SdkConfig, frozen=True):
    """The file that `config_file_path` names in the SDK's outer JSON.

    Settings of graphs require `graph_names`.
    """

    graph_names: list[str] = msgspec.field(default_factory=list)
    precision_mode: PrecisionMode | None = None
    disable_memory_optimizations: bool | None = None
    disable_node_optimizations: bool | None = None
    disable_queue_recording: Annotated[bool | None, NO_EFFECT] = None
    kernel_repo_path: str | None = None
    perf_hint: PerfHint | None = None

    def options(self) -> Mapping[str, Any]:
        """Return the options of the backend."""
        return self._given(GpuOptions)

    def graphs(self) -> Sequence[tuple[Sequence[str], GpuGraph]]:
        """Return the settings of the named graphs; those of none are an error."""
        given = self._given(GpuGraph)
        if not given and not self.graph_names:
            return ()
        return ((self.graph_names, msgspec.convert(given, GpuGraph)),)

    def _given(self, struct: type[msgspec.Struct]) -> dict[str, Any]:
        own = {*GpuFile.__struct_fields__} & {*struct.__struct_fields__}
        values = {name: getattr(self, name) for name in sorted(own)}
        found: dict[str, Any] = msgspec.to_builtins(
            {name: value for name, value in values.items() if value is not None}
        )
        return found


class Recorded(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The part of an image that is not the plan of its graph.

    Attributes:
        config: Settings of the graph.
        choices: Variants of kernels by the work.
    """

    config: GpuGraph
    choices: Annotated[dict[str, str], msgspec.Meta(max_length=_MOST_CHOICES)]
