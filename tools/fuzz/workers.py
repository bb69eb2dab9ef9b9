"""Worker processes with limits: a worker that dies, hangs or grows is replaced."""

from __future__ import annotations

import faulthandler
import gc
import multiprocessing
import os
import resource
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path

from fuzz.trial import SOURCES, Outcome, attempt, make_folder, memory_in_use

LIMIT_S = 10.0
LIMIT_BYTES = 1 << 30
# A worker that has grown by this much, or done so many files, is replaced: memory of earlier files
# must not count for a later one.
_MOST_GROWN, _MOST_DONE = 128 << 20, 2000
_FORK = multiprocessing.get_context("fork")  # workers share the imported modules and the seeds

Make = Callable[[int], bytes]
Read = Callable[[Path], None]


def try_all(
    numbers: Iterable[int], make: Make, read: Read, suffix: str, *, jobs: int = 2
) -> Iterator[tuple[int, Outcome]]:
    """Yield the number and outcome of each file, in the order in which they finish.

    Args:
        numbers: The files.
        make: Returns the bytes of a file.
        read: Reads a file, in a worker.
        suffix: Suffix of its name.
        jobs: Number of workers.
    """
    waiting = iter(numbers)
    workers = [_Worker(make, read, suffix) for _ in range(jobs)]
    try:
        busy = {w for w in workers if w.start(next(waiting, None))}
        while busy:
            wait([w.connection for w in busy], timeout=0.5)
            for worker in list(busy):
                outcome = worker.poll()
                if outcome is None:
                    continue
                yield worker.number, outcome
                if not worker.start(next(waiting, None)):
                    busy.remove(worker)
    finally:
        for worker in workers:
            worker.end()


class _Worker:
    """A process, which is replaced when it has ended."""

    def __init__(self, make: Make, read: Read, suffix: str) -> None:
        self._arguments = make, read, suffix
        self.number = -1
        self._begin()

    def _begin(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="fuzz-")
        self.connection, theirs = _FORK.Pipe()
        root = Path(self._folder.name)
        arguments = (theirs, root, *self._arguments)
        self._process = _FORK.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        theirs.close()
        self._done = 0

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self.connection.close()
        self._folder.cleanup()

    def start(self, number: int | None, *, again: bool = False) -> bool:
        """Start a file; return whether there is one."""
        if number is None:
            return False
        self.number, self._again, self._since = number, again, time.monotonic()
        self.connection.send(number)
        return True

    def poll(self) -> Outcome | None:
        """Return the outcome of the file, None while it runs."""
        try:
            if self.connection.poll():
                outcome, grown = self.connection.recv()
                self._done += 1
                if grown > _MOST_GROWN or self._done >= _MOST_DONE:
                    self._replace()
                return _judged(outcome)
        except (EOFError, ConnectionError):
            self._process.join()
            code = self._process.exitcode or 0
            name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            return self._lost(f"died: {name}")
        if time.monotonic() - self._since < LIMIT_S + 1:
            return None
        if not self._again:  # the machine may have been busy with something else
            self._replace()
            self.start(self.number, again=True)
            return None
        return self._lost(f"hangs: no outcome in {LIMIT_S:.0f} s")

    def _lost(self, verdict: str) -> Outcome:
        stack = Path(self._folder.name) / "stack"
        detail = stack.read_text(errors="replace")[-8000:]
        place = next((line.strip() for line in detail.splitlines() if SOURCES in line), "")
        self._replace()
        return Outcome(f"{verdict} {place}".strip(), True, LIMIT_S, 0, detail)

    def _replace(self) -> None:
        self.end()
        self._begin()


def _judged(outcome: Outcome) -> Outcome:
    if outcome.is_finding:
        return outcome
    found = "", ""
    if outcome.seconds > LIMIT_S:
        found = "takes long", f"{outcome.seconds:.1f} s"
    if outcome.peak_bytes > LIMIT_BYTES:
        found = "takes much memory", f"{outcome.peak_bytes >> 20} MiB"
    verdict, detail = found
    if not verdict:
        return outcome
    return Outcome(verdict, True, outcome.seconds, outcome.peak_bytes, detail)


def _serve(connection: Connection, root: Path, make: Make, read: Read, suffix: str) -> None:
    """Read numbers of files and send the outcome of each, in a worker."""
    folder, parent = make_folder(root), os.getppid()
    path = folder / f"model{suffix}"
    warnings.simplefilter("ignore")  # NumPy's, of the infinities in the files
    gc.freeze()
    resident, addresses = memory_in_use()
    resource.setrlimit(resource.RLIMIT_AS, (addresses + LIMIT_BYTES,) * 2)
    with (root / "stack").open("w") as stack:
        faulthandler.enable(stack)
        while True:
            while not connection.poll(5.0):
                if os.getppid() != parent:  # it was killed; other workers hold the pipe open
                    return
            number = connection.recv()
            path.write_bytes(make(number))
            faulthandler.dump_traceback_later(LIMIT_S, file=stack)
            outcome = attempt(read, path)
            faulthandler.cancel_dump_traceback_later()
            connection.send((outcome, memory_in_use()[0] - resident))
