"""Everything that the conformance kit does is recorded, and replayed with the same results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import kit_traces
import pytest

from dovetail import runtime
from dovetail.plugins.ops import installed_ops
from dovetail.testing import CHECKS
from dovetail.testing.binding import schema_of
from dovetail.testing.outcome import Status
from dovetail_opset.testing import CASES
from dovetail_saver.trace import OpaqueRecord, Trace


def replayed(folder: Path) -> dict[str, Any]:
    """Replay a trace in a fresh process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, "-W", "error", kit_traces.__file__, str(folder)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=environment,
    )
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_every_call_of_the_table_is_recorded_and_replayed(tmp_path: Path) -> None:
    called: set[str] = set()
    refused = 0
    for name in kit_traces.CLASSES:
        kit_traces.record_checks(tmp_path / name, name)
        found = replayed(tmp_path / name)
        assert found["differences"] == []
        records = [entry.record for entry in Trace(tmp_path / name)]
        assert sum(found["called"].values()) == len(records)
        called |= found["called"].keys()
        refused += sum(
            record.error is not None for record in records if not isinstance(record, OpaqueRecord)
        )
    assert refused > 40
    assert "completion" in called
    # what is added to the table must be replayed, too
    assert runtime.API.keys() - called == set()


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_every_check_of_an_installed_backend_is_replayed(tmp_path: Path, backend: str) -> None:
    outcomes = kit_traces.record_checks(tmp_path / "trace", backend)
    assert len(outcomes) == len(CHECKS) - len(kit_traces.RACING)
    assert {each.status for each in outcomes.values()} <= {Status.PASSED, Status.UNSUPPORTED}
    found = replayed(tmp_path / "trace")
    assert found["differences"] == []
    records = [entry.record for entry in Trace(tmp_path / "trace")]
    assert sum(found["called"].values()) == len(records) > 500
    assert found["called"]["completion"] > 0


@pytest.mark.parametrize("backend", ["cpu", "htp"])
def test_every_case_of_the_standard_ops_is_replayed(tmp_path: Path, backend: str) -> None:
    ops = installed_ops()
    cases = [case for case in CASES if schema_of(case, ops).op.is_pure]  # others draw numbers
    assert len(cases) > 650
    kit_traces.record_cases(tmp_path / "trace", backend, cases)
    found = replayed(tmp_path / "trace")
    assert found["differences"] == []
    assert found["called"]["graph_execute"] > len(cases)
