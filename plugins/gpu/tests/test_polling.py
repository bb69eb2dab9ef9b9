"""Waits for commands that end soon."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from dovetail_gpu.polling import Poller


class Command:
    """The event of a command that ends at a check of its status."""

    def __init__(self, checks: float) -> None:
        self.checks, self.checked = checks, 0

    @property
    def command_execution_status(self) -> int:
        self.checked += 1
        return 0 if self.checked >= self.checks else 1


def wait(poller: Poller, command: Any) -> None:
    poller.wait(SimpleNamespace(flush=lambda: None), command)


def test_commands_that_end_soon_are_waited_for() -> None:
    poller = Poller()
    for _ in range(3):
        command = Command(5)
        wait(poller, command)
        assert command.checked == 5


def test_a_failed_command_has_ended() -> None:
    failed = SimpleNamespace(command_execution_status=-5)
    wait(Poller(), failed)


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
