"""Configs of the backends: options, and the settings of devices."""

from __future__ import annotations

from typing import Annotated

import msgspec

from dovetail.runtime.config import DeviceConfig
from dovetail.runtime.contract import Options
from dovetail_onednn import EngineChoice, ReleaseGil


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
        arch: Architecture of the emulated processor, such as `v75`, unless the device says another.
    """

    engine: EngineChoice = EngineChoice.AUTO
    num_threads: Annotated[int, msgspec.Meta(ge=1, le=1024)] | None = None
    release_gil: ReleaseGil = ReleaseGil.AUTO
    arch: str | None = None


class HtpDevice(DeviceConfig, frozen=True):
    """The emulated device.

    Attributes:
        soc_model: Model number or name of the system on chip.
        soc_id: The same, in older files.
        dsp_arch: Architecture of its processor, such as `v75`.
    """

    soc_model: int | str = 0
    soc_id: int | str = 0
    dsp_arch: str | None = None
