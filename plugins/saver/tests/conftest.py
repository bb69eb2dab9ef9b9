"""What the tests share: small sessions to record, and running commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from network import run_network
from recorded import program

import dovetail as dt
from dovetail.cli import main
from dovetail.plugins import refresh

__all__ = ["program"]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A recorded session of `run_network`."""
    with dt.record(tmp_path / "trace"):
        run_network()
    return tmp_path / "trace"


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def dovetail(capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Run `dovetail` in this process."""

    def run(*args: object) -> Done:
        capsys.readouterr()
        code = main([str(arg) for arg in args])
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return run


@pytest.fixture
def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install the backend `faulty`, which makes no mistakes unless FAULTY_OP names an op."""
    info = tmp_path / "site" / "faulty-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1.0\n")
    points = "[dovetail.backends]\nfaulty = faulty_backend:FaultyBackend\n"
    (info / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(str(info.parent))
    monkeypatch.delenv("DOVETAIL_PLUGINS", raising=False)
    refresh()
    yield
    monkeypatch.undo()
    refresh()
