"""Backends whose speed, precision, power efficiency and failures are options."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from msgspec.structs import replace
from partial_backends import LeftBackend, PartialDevice, PartialGraph, PartialPrepared

from dovetail.errors import BackendError
from dovetail.ops import CheckedGraph
from dovetail.runtime import contract
from dovetail.runtime.base import ContextBase
from dovetail.runtime.contract import FloatPrecision, PrepareRequest

RUNS: list[str] = []  # the backend of each run


class RacingOptions(contract.Options, frozen=True):
    refuse: tuple[str, ...] = ()
    fail: bool = False
    fails_to_prepare: bool = False
    fails_to_run: bool = False
    delay_ms: float = 0.0
    rounds_to: FloatPrecision = FloatPrecision.FLOAT32
    efficiency: float = 0.4
    max_tensor_bytes: int | None = None
    records_only: bool = False


class RacingPrepared(PartialPrepared):
    def __init__(self, name: str, graph: CheckedGraph, options: RacingOptions) -> None:
        super().__init__(name, graph)
        self.options = options

    def run(self, inputs: Any, outputs: Any, control: contract.RunControl) -> None:
        RUNS.append(self.name)
        until = time.perf_counter() + self.options.delay_ms / 1000
        while time.perf_counter() < until:
            control.check()
            time.sleep(0.0002)
        if self.options.fails_to_run:
            raise BackendError("the device is lost")
        super().run(inputs, outputs, control)


class FirstBackend(LeftBackend):
    name: ClassVar[str] = "first"
    configs: ClassVar[contract.Configs] = contract.Configs(
        backend=RacingOptions, device=PartialDevice, graph=PartialGraph
    )
    is_native: ClassVar[bool] = True

    def capabilities(self) -> contract.Capabilities:
        return replace(
            super().capabilities(),
            records_only=self.options.records_only,
            max_tensor_bytes=self.options.max_tensor_bytes,
            power_efficiency=self.options.efficiency,
        )

    def float_precision(self, config: Any) -> FloatPrecision:
        return FloatPrecision(self.options.rounds_to)

    def fingerprint(self, device: Any) -> contract.Fingerprint:
        return contract.Fingerprint({"backend": self.name, "delay": str(self.options.delay_ms)})

    def prepare(
        self, graph: CheckedGraph, request: PrepareRequest, context: ContextBase
    ) -> RacingPrepared:
        if self.options.fails_to_prepare:
            raise OSError("out of device memory")
        return RacingPrepared(self.name, graph, self.options)


class SecondBackend(FirstBackend):
    name: ClassVar[str] = "second"


class ForeignBackend(FirstBackend):
    """One that `auto` does not choose unless it is named."""

    name: ClassVar[str] = "foreign"
    is_native: ClassVar[bool] = False
