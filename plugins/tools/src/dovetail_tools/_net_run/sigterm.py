"""Runs ended from outside by SIGTERM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import typer

TERMINATED = 143


class _Terminated(BaseException):
    """SIGTERM arrived; not an error, so that no handler of errors catches it."""


@contextmanager
def unwound_by_sigterm() -> Iterator[None]:
    """Let SIGTERM unwind the block like an error, then end the command with status 143."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    except _Terminated:
        raise typer.Exit(TERMINATED) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise _Terminated
