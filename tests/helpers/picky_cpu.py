"""The backend `cpu` under another name, without chosen ops."""

from __future__ import annotations

from typing import Any, ClassVar

from dovetail.ops import NodeView
from dovetail.runtime.contract import Configs, Support
from dovetail_cpu import CpuBackend, CpuOptions


class PickyOptions(CpuOptions, frozen=True):
    refuse: tuple[str, ...] = ()


class PickyCpu(CpuBackend):
    name: ClassVar[str] = "picky"
    configs: ClassVar[Configs] = Configs(backend=PickyOptions)
    options: PickyOptions

    def validate(self, node: NodeView, device: Any, config: Any) -> Support:
        if node.op_type in self.options.refuse:
            return Support(False, "op", "type", node.op_type, rewrite="use another op")
        return super().validate(node, device, config)
