"""Configs of the backends, and their own file in the SDK's JSON.

The annotations are the one table of keys and effects: from them come the warnings for keys without
effect, and the table in `docs/htp.md`. A key of any SDK version is known; others are errors.

Source: spec/configs.md, section 2; the file `backend_config.json` of the optimization tutorial.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from dovetail.runtime.config import ContextConfig, DeviceConfig, GraphConfig, SdkConfig
from dovetail.runtime.contract import Options
from dovetail.typed import NO_EFFECT, effect, effect_of
from dovetail_numpy.integer.fixed import Requantization
from dovetail_onednn import EngineChoice, ReleaseGil

T = TypeVar("T", bound=msgspec.Struct)
Megabytes = Annotated[int, msgspec.Meta(ge=0, le=1024)]
_Level = Annotated[float, msgspec.Meta(ge=1, le=3, multiple_of=1)]  # also written 3.0
Flag = bool | Literal[0, 1]
PerfProfile = Literal[
    "burst",
    "sustained_high_performance",
    "high_performance",
    "balanced",
    "low_balanced",
    "high_power_saver",
    "power_saver",
    "low_power_saver",
    "extreme_power_saver",
    "default",
    "system_settings",
    "llm_decode_burst",
    "llm_decode_sustained_high_performance",
    "llm_decode_high_performance",
    "llm_decode_balanced",
    "llm_decode_low_balanced",
    "llm_decode_high_power_saver",
    "llm_decode_power_saver",
    "llm_decode_low_power_saver",
    "llm_decode_extreme_power_saver",
    "llm_decode_default",
]
_SOC = "selects the emulated system on chip, by model number or name"
_SHARING = (
    "an error below v73, and for models that `net-run` prepares itself, as in the SDK; equal "
    "weights are shared with and without it"
)
_VTCM = "size of VTCM in estimates; 0 is that of the system on chip"


class HtpOptions(Options, frozen=True):
    """Options of the backends of this package.

    Attributes:
        engine: The library that computes. All give the same bits on quantized nodes. AUTO is oneDNN
            for the ops that it has kernels for, where it is installed and computes known results
            correctly, else NumPy.
        num_threads: Maximum number of threads of oneDNN; by default one for each processor
            that affinity mask and cgroups allow.
        release_gil: Whether other Python threads run during a step of oneDNN. AUTO: during long
            steps, and while another session computes.
        requantization: Arithmetic of results, see `docs/htp_arithmetic.md`. FIXED and FIXED_SINGLE
            compute as LiteRT's kernels do; they are slow.
        arch: Architecture of the emulated processor, such as `v75`; also written after the name of
            the backend, as in `htp:v75`.
    """

    engine: EngineChoice = EngineChoice.AUTO
    num_threads: Annotated[int, msgspec.Meta(ge=1, le=1024)] | None = None
    release_gil: ReleaseGil = ReleaseGil.AUTO
    requantization: Requantization = Requantization.FLOAT
    arch: str | None = None


class Core(msgspec.Struct, frozen=True):
    """A core of a device, in `devices[].cores`."""

    core_id: Annotated[int, NO_EFFECT] = 0
    perf_profile: Annotated[PerfProfile, NO_EFFECT] = "high_performance"
    rpc_control_latency: Annotated[int, NO_EFFECT] = 100
    rpc_polling_time: Annotated[int | None, NO_EFFECT] = None
    hmx_timeout_us: Annotated[int, NO_EFFECT] = 300_000
    adaptive_polling_time: Annotated[int, NO_EFFECT] = 0


class HtpDevice(DeviceConfig, frozen=True):
    """The emulated device, in `devices[]`."""

    soc_model: Annotated[int | str, effect(_SOC)] = 0
    soc_id: Annotated[int | str, effect("the same, in older files")] = 0
    dsp_arch: Annotated[str | None, effect("selects the architecture, such as `v75`")] = None
    htp_arch: Annotated[str | None, effect("the same, in public files")] = None
    vtcm_mb: Annotated[Megabytes, effect(f"{_VTCM} (not a key of the SDK)")] = 0
    device_id: Annotated[int, NO_EFFECT] = 0
    pd_session: Annotated[Literal["unsigned", "signed"], NO_EFFECT] = "unsigned"
    profiling_level: Annotated[str | None, NO_EFFECT] = None
    use_client_context: Annotated[Flag, NO_EFFECT] = False
    core_id: Annotated[int | list[int], NO_EFFECT] = 0
    core_type: Annotated[Literal[0, 1], NO_EFFECT] = 0
    cores: Annotated[list[Core] | Core, NO_EFFECT] = msgspec.field(default_factory=list)


class HtpContext(ContextConfig, frozen=True):
    """Settings of a context, in `context`."""

    weight_sharing_enabled: Annotated[Flag, effect(_SHARING)] = False
    max_spill_fill_buffer_for_group: Annotated[int | None, NO_EFFECT] = None
    group_id: Annotated[int | None, NO_EFFECT] = None
    file_read_memory_budget_in_mb: Annotated[int, NO_EFFECT] = 0
    io_memory_estimation: Annotated[Flag, NO_EFFECT] = False
    extended_udma: Annotated[Flag, NO_EFFECT] = False
    init_acceleration: Annotated[Flag, NO_EFFECT] = False
    concurrent_deserialization_patch: Annotated[str | None, NO_EFFECT] = None
    lora_weight_sharing: Annotated[Flag, NO_EFFECT] = False
    lora_weight_sharing_ram_preload: Annotated[Flag, NO_EFFECT] = False
    reused_io_limit_mb: Annotated[int, NO_EFFECT] = 0
    skip_validation_on_binary_section: Annotated[Flag, NO_EFFECT] = False
    detachable_buffers_enabled: Annotated[Flag, NO_EFFECT] = False


class HtpGraph(GraphConfig, frozen=True):
    """Settings of a graph, in `graphs[]`."""

    vtcm_mb: Annotated[Megabytes, effect(_VTCM)] = 0
    vtcm_size: Annotated[int, NO_EFFECT] = 0
    hvx_threads: Annotated[int | None, NO_EFFECT] = None
    optimization: Annotated[_Level, NO_EFFECT] = msgspec.field(default=2, name="O")
    dlbc: Annotated[float, NO_EFFECT] = 0
    dlbc_weights: Annotated[float, NO_EFFECT] = 0
    fp16_relaxed_precision: Annotated[Flag, NO_EFFECT] = False
    weights_packing: Annotated[Flag, NO_EFFECT] = False
    num_cores: Annotated[int, NO_EFFECT] = 1
    short_depth_conv_on_hmx_off: Annotated[Flag, NO_EFFECT] = False
    fold_relu_activation_into_conv_off: Annotated[Flag, NO_EFFECT] = False
    advanced_activation_fusion: Annotated[Flag, NO_EFFECT] = True
    use_high_precision_fp16_sigmoid: Annotated[Flag, NO_EFFECT] = False
    monolithic_lstm: Annotated[Flag, NO_EFFECT] = False
    finalize_config: Annotated[dict[str, Any] | None, NO_EFFECT] = None


class _NamedGraph(HtpGraph, frozen=True):
    graph_names: Annotated[list[str], effect("the graphs that the other keys are for")] = (
        msgspec.field(default_factory=list)
    )


class _GroupContext(msgspec.Struct, frozen=True):
    share_resources: Annotated[Flag, NO_EFFECT] = False
    reused_io_limit_mb: Annotated[int, NO_EFFECT] = 0


class _Memory(msgspec.Struct, frozen=True):
    mem_type: Annotated[Literal["undefined", "shared_buffer"], NO_EFFECT] = "undefined"


class _TutorialHtp(msgspec.Struct, frozen=True):
    vtcm_mb: Annotated[Megabytes, effect(_VTCM)] = 0
    device_id: Annotated[int, NO_EFFECT] = 0
    performance_mode: Annotated[PerfProfile, NO_EFFECT] = "default"
    precision_mode: Annotated[str | None, NO_EFFECT] = None
    enable_dma: Annotated[Flag, NO_EFFECT] = True


class HtpFile(SdkConfig, frozen=True):
    """The file that `config_file_path` names in the SDK's outer JSON."""

    graphs_: list[_NamedGraph] | _NamedGraph = msgspec.field(default_factory=list, name="graphs")
    devices: list[HtpDevice] | HtpDevice = msgspec.field(default_factory=list)
    context_: list[HtpContext] | HtpContext = msgspec.field(default_factory=list, name="context")
    group_context: _GroupContext = msgspec.field(default=_GroupContext(), name="groupContext")
    memory: _Memory = _Memory()
    htp_config: _TutorialHtp = _TutorialHtp()
    gpu_config: Annotated[dict[str, Any] | None, NO_EFFECT] = None
    cpu_config: Annotated[dict[str, Any] | None, NO_EFFECT] = None

    def device(self) -> HtpDevice:
        """Return the settings of the first device."""
        found = _first(self.devices, HtpDevice())
        if self.htp_config.vtcm_mb and not found.vtcm_mb:
            return msgspec.structs.replace(found, vtcm_mb=self.htp_config.vtcm_mb)
        return found

    def context(self) -> HtpContext:
        """Return the settings of contexts."""
        return _first(self.context_, HtpContext())

    def graphs(self) -> Sequence[tuple[Sequence[str], HtpGraph]]:
        """Return settings of graphs, each with the names of the graphs."""
        tables = self.graphs_ if isinstance(self.graphs_, list) else [self.graphs_]
        own = HtpGraph.__struct_fields__
        return [(t.graph_names, HtpGraph(**{n: getattr(t, n) for n in own})) for t in tables]

    def without_effect(self) -> Sequence[str]:
        """Return the paths of devices and contexts after the first: there is one of each."""
        lists = {"devices": self.devices, "context": self.context_}
        return [
            f"{key}[{i}]"
            for key, found in lists.items()
            if isinstance(found, list)
            for i in range(1, len(found))
        ]


def keys_and_effects() -> Iterator[tuple[str, str]]:
    """Yield each key of the file with its effect; empty if it has none."""
    sections: dict[str, type[msgspec.Struct]] = {
        "graphs[].": _NamedGraph,
        "devices[].": HtpDevice,
        "devices[].cores[].": Core,
        "context.": HtpContext,
        "groupContext.": _GroupContext,
        "memory.": _Memory,
        "htp_config.": _TutorialHtp,
        "": HtpFile,
    }
    for prefix, struct in sections.items():
        for field in msgspec.structs.fields(struct):
            stated = effect_of(field.type)
            if stated is not None and field.encode_name not in _OF_CORE:
                yield f"{prefix}{field.encode_name}", stated


_OF_CORE = {
    f.encode_name for kind in (ContextConfig, GraphConfig) for f in msgspec.structs.fields(kind)
}


def _first(found: list[T] | T, default: T) -> T:
    """Return one settings object, the first of several, or the default."""
    if isinstance(found, list):
        return found[0] if found else default
    return found
