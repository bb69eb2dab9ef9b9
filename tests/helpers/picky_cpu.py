"""The backend `cpu` under another name, without chosen ops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dovetail.ops import NodeView
from dovetail.plugins import refresh
from dovetail.runtime.contract import Configs, Support
from dovetail_cpu import CpuBackend, CpuOptions

if TYPE_CHECKING:
    import pytest


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


def write_dist(folder: Path) -> Path:
    """Write the metadata of a dist that provides the backend; return the folder to import from."""
    info = folder / "site" / "picky-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: picky\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dovetail.backends]\npicky = picky_cpu:PickyCpu\n")
    return info.parent


@contextmanager
def picky_installed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install the backend below a folder, which is the working folder meanwhile."""
    monkeypatch.syspath_prepend(str(write_dist(folder)))
    monkeypatch.delenv("DOVETAIL_PLUGINS", raising=False)
    monkeypatch.chdir(folder)
    refresh()
    yield
    monkeypatch.undo()
    refresh()
