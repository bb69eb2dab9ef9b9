"""The table of op exporters: which function writes which op of the standard set."""

from __future__ import annotations

from collections.abc import Callable

from dovetail_onnx.exporter._node import OpExporter

EXPORTERS: dict[str, OpExporter] = {}


def exports(*op_types: str) -> Callable[[OpExporter], OpExporter]:
    """Register the decorated function for ops of `qti.aisw`."""

    def register(function: OpExporter) -> OpExporter:
        for op_type in op_types:
            if op_type in EXPORTERS:
                raise AssertionError(f"two functions export {op_type}")
            EXPORTERS[op_type] = function
        return function

    return register
