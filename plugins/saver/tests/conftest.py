"""What the tests share: small sessions to record, and running commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import Run, runner
from network import run_network
from recorded import program

import dovetail as dt
from dovetail.plugins import refresh

__all__ = ["program"]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A recorded session of `run_network`."""
    with dt.record(tmp_path / "trace"):
        run_network()
    return tmp_path / "trace"


@pytest.fixture
def dovetail(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `dovetail` in this process."""
    return runner(capsys)


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
