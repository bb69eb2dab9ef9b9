"""Limits of input sets that are read ahead, and of executions in the queue."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dovetail.runtime.base import PreparedBase
from dovetail.runtime.config_file import OverlapConfig
from dovetail_cpu import CpuBackend
from dovetail_tools._net_run import executor
from dovetail_tools._net_run.overlap import OverlapLimits

INPUT_SETS = "input_tensors_creation_tasks_limit"
EXECUTIONS = "execute_enqueue_tasks_limit"


@pytest.fixture
def ahead(
    two_steps: str, run: Any, raw: Any, listing: Any, result: Any, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """Run with a config; return how many sets are read before the fourth execution ends.

    The first three are those after which overlap is found to pay.
    """
    for i in range(40):
        raw(f"{i}.raw", np.arange(6.0) + i)
    listing(*(f"{i}.raw" for i in range(40)))
    monkeypatch.setattr(executor, "_PAYS_US", 0)
    read, landed, prepare = executor.JobRunner._read, executor._finished, CpuBackend.prepare
    reads = 0
    waits = threading.Event()  # the command waits for the fourth execution

    def noting(self: Any, slot: Any, inference: int) -> None:
        nonlocal reads
        read(self, slot, inference)
        reads += 1

    def noting_wait(flying: Any) -> Any:
        if flying[0].inference == 3:
            waits.set()
        return landed(flying)

    class Waiting(PreparedBase):
        count = 0
        seen = 0

        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def run(self, inputs: Any, outputs: Any, control: Any) -> None:
            Waiting.count += 1
            if Waiting.count == 4:
                assert waits.wait(20)
                Waiting.seen = reads
            self._inner.run(inputs, outputs, control)

    def measure(config: str) -> int:
        nonlocal reads
        reads = Waiting.count = Waiting.seen = 0
        waits.clear()
        monkeypatch.setattr(executor, "_finished", noting_wait)
        monkeypatch.setattr(executor.JobRunner, "_read", noting)
        monkeypatch.setattr(CpuBackend, "prepare", lambda *args: Waiting(prepare(*args)))
        Path("run.toml").write_text(config)
        given = ("--model", two_steps, "--input-list", "list.txt", "--config-file", "run.toml")
        done = run("net-run", *given)
        assert done.code == 0, done.err
        assert "no effect" not in done.err
        for i in range(40):
            np.testing.assert_array_equal(result("y.raw", index=i), -np.arange(6.0) - i)
        return Waiting.seen

    return measure


def section(**keys: int) -> str:
    lines = (f"{key} = {value}\n" for key, value in keys.items())
    return "[async_graph_execution]\n" + "".join(lines)


@pytest.mark.parametrize(
    ("config", "reads"),
    [
        # three that have ended, those in the queue, those that are read ahead
        (section(**{EXECUTIONS: 1, INPUT_SETS: 1}), 3 + 1 + 1),
        (section(**{EXECUTIONS: 1, INPUT_SETS: 4}), 3 + 1 + 4),
        (section(**{EXECUTIONS: 5, INPUT_SETS: 1}), 3 + 5 + 1),
        (section(**{EXECUTIONS: 4, INPUT_SETS: 6}), 3 + 4 + 6),
        ("", 3 + 10 + 10),
        ("[context]\nasync_execute_queue_depth = 3\n", 3 + 3 + 3),
        (f"[context]\nasync_execute_queue_depth = 3\n{section(**{EXECUTIONS: 5})}", 3 + 3 + 3),
    ],
)
def test_sets_that_are_read_before_an_execution_ends(ahead: Any, config: str, reads: int) -> None:
    assert ahead(config) == reads


def test_large_buffers_overlap_less_unless_the_config_says_so() -> None:
    assert OverlapLimits.of(OverlapConfig(), 10, 2**20) == OverlapLimits(10, 10)
    assert OverlapLimits.of(OverlapConfig(), 10, 2**25) == OverlapLimits(4, 4)
    assert OverlapLimits.of(OverlapConfig(), 10, 2**30) == OverlapLimits(2, 1)
    given = OverlapConfig(6, 7)
    assert OverlapLimits.of(given, 10, 2**30) == OverlapLimits(7, 6)
    assert OverlapLimits.of(OverlapConfig(), 1, 0) == OverlapLimits(1, 1)
