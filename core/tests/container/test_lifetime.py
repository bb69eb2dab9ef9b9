"""Finalizers: called once, and after the `__del__` methods that may use the resource."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import numpy as np

from dovetail.container import Anchor, Finalizer, Model, Producer, anchor
from dovetail.ir import Graph, Tensor

# Runs in a process of its own, at whose end objects with `__del__` read the weights.
AT_EXIT = """
from dovetail.container import Model

class Last:
    def __init__(self):
        self.tensor = Model.load("large.dvt").graphs["g"].tensors["w"]
        self.read = self.tensor.values()  # in use: it guards each run of a session
        self.sum = self.read.sum()  # imports what `sum` needs: nothing can be imported at exit

    def __del__(self):
        print(self.tensor.values().sum() == self.sum)

last, cycle = Last(), Last()
cycle.itself = cycle
"""


class Last:
    def __init__(self, end: Anchor, ends: list[str]) -> None:
        self.itself = self
        self.end = end
        self.ends = ends

    def __del__(self) -> None:
        self.ends.append("deleted")


def test_a_function_is_called_after_the_last_reference_is_dropped() -> None:
    ends: list[str] = []
    kept = anchor()
    end = Finalizer(kept, ends.append, "dropped")
    assert end.alive
    assert ends == []
    del kept
    assert ends == ["dropped"]
    assert not end.alive


def test_a_function_is_called_once() -> None:
    ends: list[str] = []
    kept = anchor()
    end = Finalizer(kept, ends.append, "called")
    end()
    assert not end.alive
    end()
    del kept
    assert ends == ["called"]


def test_objects_of_a_cycle_are_deleted_before() -> None:
    ends: list[str] = []
    last = Last(anchor(), ends)
    Finalizer(last.end, ends.append, "released")
    del last
    gc.collect()
    assert ends == ["deleted", "released"]


def test_mapped_weights_can_be_read_at_exit(tmp_path: Path) -> None:
    graph = Graph("g")
    graph.add_tensor(Tensor.static("w", np.ones(1 << 16, np.float32)))
    Model({"g": graph}, Producer("test", "1"), {}).save(tmp_path / "large.dvt")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", AT_EXIT],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("True\n" * 2, "")


def test_a_finalizer_that_was_called_does_not_call_another() -> None:
    calls: list[str] = []
    anchors = [anchor() for _ in range(101)]
    first = Finalizer(anchors[0], calls.append, "first")
    first()
    others = [Finalizer(anchors[i + 1], calls.append, str(i)) for i in range(100)]
    assert not first.alive
    first()
    assert calls == ["first"]
    assert all(other.alive for other in others)
    anchors.clear()
    assert sorted(calls[1:], key=int) == [str(i) for i in range(100)]
