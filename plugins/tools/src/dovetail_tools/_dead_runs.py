"""Runs ended from outside: SIGTERM, and temporary folders of killed runs."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import typer

PREFIX = ".net-run-"
TERMINATED = 143
_OWNER = "owner"
_LOG = logging.getLogger("dovetail.net-run")


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


def mark(folder: Path) -> None:
    """Record the owning process in a temporary folder.

    Raises:
        OSError: The record cannot be written.
    """
    (folder / _OWNER).write_text(_owner(os.getpid()), "utf-8")


def remove_dead(folder: Path) -> None:
    """Remove temporary folders of dead processes of this host.

    A folder with earlier results, moved there by a run that was killed, is not removed.
    """
    for entry in folder.glob(f"{PREFIX}*"):
        if not entry.is_symlink() and _is_dead(entry):
            if (entry / "old").exists():
                _LOG.warning("%s has earlier results, left by a run that was killed", entry)
            else:
                shutil.rmtree(entry, ignore_errors=True)


def _is_dead(entry: Path) -> bool:
    try:
        text = (entry / _OWNER).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return False  # maybe not ours
    number = text.partition(" ")[0]
    # on Windows os.kill ends a process instead of checking it
    if os.name != "posix" or not number.isdecimal() or text != _owner(int(number)):
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def _owner(pid: int) -> str:
    return f"{pid} {socket.gethostname()}"


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise _Terminated
