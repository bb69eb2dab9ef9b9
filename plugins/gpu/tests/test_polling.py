"""Waits for commands that end soon, by a clock that each yield advances."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dovetail_gpu import polling
from dovetail_gpu.polling import Poller


class Clock:
    """A clock, in place of the module `time`."""

    def __init__(self) -> None:
        self.now, self.step = 0.0, 1e-5

    def perf_counter(self) -> float:
        return self.now

    def advance(self) -> None:
        self.now += self.step


class Command:
    """The event of a command that ends at a check of its status."""

    def __init__(self, checks: float) -> None:
        self.checks, self.checked = checks, 0

    @property
    def command_execution_status(self) -> int:
        self.checked += 1
        return 0 if self.checked >= self.checks else 1


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(polling, "time", found)
    monkeypatch.setattr(polling, "_yield", found.advance)
    return found


def wait(poller: Poller, command: Any) -> None:
    poller.wait(SimpleNamespace(flush=lambda: None), command)


def test_commands_that_end_soon_are_waited_for() -> None:
    poller = Poller()
    for _ in range(3):
        command = Command(4)
        wait(poller, command)
        assert command.checked == 4


def test_a_failed_command_has_ended(clock: Clock) -> None:
    wait(Poller(), SimpleNamespace(command_execution_status=-5))
    assert clock.now == 0


def test_waits_in_vain_are_made_ever_more_seldom() -> None:
    poller = Poller()
    waited = []
    for i in range(2000):
        command = Command(float("inf"))
        wait(poller, command)
        if command.checked:
            waited.append(i)
    assert waited == [0, 2, 6, 14, 30, 62, 126, 254, 510, 1022]
    soon = Command(2)
    while not soon.checked:
        wait(poller, soon)
    for _ in range(3):  # and again where commands end soon
        soon = Command(2)
        wait(poller, soon)
        assert soon.checked == 2


def test_waits_that_lose_the_processor_are_in_vain(clock: Clock) -> None:
    clock.step = 1e-3
    poller, first, second = Poller(), Command(2), Command(2)
    wait(poller, first)
    wait(poller, second)
    assert (first.checked, second.checked) == (2, 0)
