"""What core's tests share: a site folder in which they install dists made on the spot."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from dovetail.plugins import refresh


class Site:
    """A folder on `sys.path` with real dist-info folders and modules."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.modules: set[str] = set()

    def module(self, name: str, source: str) -> None:
        (self.folder / f"{name}.py").write_text(source, "utf-8")
        self.modules.add(name)

    def dist(
        self,
        name: str,
        entry_points: Mapping[str, Mapping[str, str]],
        *,
        version: str = "1.0",
        requires: Sequence[str] = (),
    ) -> Path:
        """Install a dist; gives its dist-info folder."""
        info = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        lines += [f"Requires-Dist: {r}" for r in requires]
        (info / "METADATA").write_text("\n".join(lines) + "\n", "utf-8")
        groups = (
            "\n".join([f"[{group}]", *(f"{k} = {v}" for k, v in points.items())])
            for group, points in entry_points.items()
        )
        (info / "entry_points.txt").write_text("\n\n".join(groups) + "\n", "utf-8")
        refresh()
        return info


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    folder = tmp_path / "site"
    folder.mkdir()
    made = Site(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delenv("DOVETAIL_PLUGINS", raising=False)
    refresh()
    yield made
    for name in made.modules:
        sys.modules.pop(name, None)
    monkeypatch.undo()
    refresh()
