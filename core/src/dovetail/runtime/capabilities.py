"""Facts about a backend: the types of its configs, its capabilities, its devices."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

import msgspec

from dovetail.ir import DataFormat, EncodingKind
from dovetail.runtime.config import ContextConfig, DeviceConfig, GraphConfig, SdkConfig


class Options(msgspec.Struct, frozen=True):
    """Base of a backend's options: a Struct whose fields all have defaults."""

    @classmethod
    def without_files(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return recorded options, without files that they let a backend write.

        A backend whose options name such files overrides it: a trace may come from anyone.
        """
        return dict(options)


class Configs(msgspec.Struct, frozen=True):
    """Types of a backend's four configs: Structs whose fields all have defaults.

    Attributes:
        backend: Its options.
        device: Settings of a device.
        context: Settings of a context.
        graph: Settings of a graph; those of a config file are matched by `graph_names`.
        sdk: Content of the backend's own file in the SDK's JSON; None if that holds its options.
    """

    backend: type[Options] = Options
    device: type[DeviceConfig] = DeviceConfig
    context: type[ContextConfig] = ContextConfig
    graph: type[GraphConfig] = GraphConfig
    sdk: type[SdkConfig] | None = None


class FloatPrecision(enum.Enum):
    """The narrowest type to which a backend may round float32 values of a graph."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"  # bfloat16 included
    INTEGER = "integer"


# Those with one integer offset for each scale, which `simulate` runs for any op.
_LINEAR_ENCODINGS = frozenset(kind for kind in EncodingKind if kind < EncodingKind.VECTOR)


class Capabilities(msgspec.Struct, frozen=True):
    """Capabilities of a backend beyond running float graphs. Using a missing one is an error.

    Attributes:
        op_packages: Runs ops of other packages.
        opaque_ops: Accepts nodes whose op package is not installed (`NodeView.is_opaque`).
        caching: Creates and restores context binaries (`image`, `restore`).
        cancel: Checks `RunControl` between steps, so that signals and timeouts work.
        watch: Reports each step to the control (`RunControl.step_finished`), for detailed profiling
            and debug outputs.
        asynchronous: Supports execution in a queue's thread.
        overlap: Several executions of a graph may be in progress (`Prepared.submit`).
        priority: Higher-priority executions overtake waiting ones.
        updates: Binds new data to UPDATEABLE tensors after finalize (`update`).
        memory_handles: Supports registered memory as inputs and outputs.
        custom_memory: Registers memory that is not the host's, too.
        emulates_io_buffers: Emulates a processor that can access registered memory only. Profiles
            count the buffers that it has for other inputs and outputs, and the copies of those.
        records_only: Accepts calls and computes nothing: outputs are zeros that mean nothing.
        dynamic_dimensions: Runs with sizes below the maximum on dynamic axes (`Tensor.dynamic`).
        data_formats: Formats of tensors.
        encodings: Kinds of encodings; `validate` may reject some.
        profile_levels: Numbers of its own profiling levels, from `ProfileLevel.BACKEND`.
        max_tensor_bytes: Maximum size of one tensor; None without a limit.
        power_efficiency: Inferences for the same energy, relative to those of others, for the power
            preference of `auto`: about 0.4 for a processor, 0.6 for a GPU, 0.9 for an NPU.
    """

    op_packages: bool = False
    opaque_ops: bool = False
    caching: bool = False
    cancel: bool = False
    watch: bool = False
    asynchronous: bool = False
    overlap: bool = False
    priority: bool = False
    updates: bool = False
    memory_handles: bool = False
    custom_memory: bool = False
    emulates_io_buffers: bool = False
    records_only: bool = False
    dynamic_dimensions: bool = False
    data_formats: frozenset[DataFormat] = frozenset({DataFormat.DENSE})
    encodings: frozenset[EncodingKind] = _LINEAR_ENCODINGS
    profile_levels: tuple[int, ...] = ()
    max_tensor_bytes: int | None = None
    power_efficiency: float = 0.4


class DeviceInfo(msgspec.Struct, frozen=True):
    """A device that a backend can use.

    Attributes:
        name: Its name.
        cores: Number of its cores.
        soc: Name of the system on chip that it is part of or represents; empty if none.
    """

    name: str
    cores: int = 1
    soc: str = ""


class Platform(msgspec.Struct, frozen=True):
    """The devices and libraries of a backend, as `doctor` shows them.

    Attributes:
        devices: Its devices.
        version: Version of the backend.
        notes: Lines on its libraries and their state.
    """

    devices: tuple[DeviceInfo, ...] = (DeviceInfo("host"),)
    version: str = ""
    notes: tuple[str, ...] = ()
