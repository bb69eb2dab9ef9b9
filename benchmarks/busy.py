"""Busy processes, which compete with the measured process for processors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

# Ends with its standard input, which the system closes however the driver ends.
PROGRAM = """
import os, sys, threading

def watch():
    sys.stdin.buffer.read()
    os._exit(0)

threading.Thread(target=watch, daemon=True).start()
print("busy", flush=True)
while True:
    pass
"""


@contextmanager
def busy_processes(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Keep a number of processes busy during the `with` block.

    Yields:
        The processes, all of which compute.
    """
    with ExitStack() as stack:
        processes = [stack.enter_context(_busy_process()) for _ in range(count)]
        for process in processes:
            if process.stdout is not None:
                process.stdout.readline()
        yield processes


@contextmanager
def _busy_process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # an interrupt by the keyboard reaches these processes, too
    ) as process:
        try:
            yield process
        finally:
            process.kill()
