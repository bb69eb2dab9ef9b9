"""The loop over one graph's inferences: read, execute and write, with or without overlap."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from dovetail.cli.inputs.raw_files import RawReader
from dovetail.cli.progress import Advance
from dovetail.files import unwritable
from dovetail.ir import Array
from dovetail.runtime import Execution, Graph, Profile, ProfileLevel, Signal, SignalKind
from dovetail_tools._jobs import Job
from dovetail_tools._output_files import write_result
from dovetail_tools._request import Request
from dovetail_tools._timings import Timings

# One execution runs and one waits, so that the backend is never idle; a third is read or written.
_IN_FLIGHT = 2
# For shorter executions, overlap was measured to increase latency and to reduce throughput: the
# digits demo took 0.15 ms at the median instead of 0.054, and occasionally 16 ms.
_PAYS_US = 2000.0
_PROBED = 3  # executions measured before the decision


@dataclass(slots=True)
class _Slot:
    """The reusable buffers and handles of one inference in progress."""

    readers: Mapping[str, RawReader]
    outputs: Mapping[str, Array]
    profile: Profile
    signal: Signal | None
    number: int
    inference: int = 0
    read_s: tuple[float, float] = (0.0, 0.0)  # start and end
    execution: Execution | None = None

    @property
    def inputs(self) -> dict[str, Array]:
        return {name: reader.stored for name, reader in self.readers.items()}


class JobRunner:
    """Runs one graph over its list.

    Args:
        job: The job to run.
        graph: Its handle, finalized.
        request: Number of inferences, and results to keep.
        level: Profiling level.
        folder: Folder of the results; created for the first one.
        timings: Receives the times.
    """

    def __init__(
        self,
        job: Job,
        graph: Graph,
        request: Request,
        level: ProfileLevel,
        folder: Path,
        timings: Timings,
    ) -> None:
        self._job = job
        self._graph = graph
        self._request = request
        self._level = level
        self._folder = folder
        self._timings = timings
        self._slots: list[_Slot] = []
        self._free: list[_Slot] = []
        self.results = 0

    def run(self, queue_depth: int | None, advance: Advance) -> None:
        """Run all inferences.

        Args:
            queue_depth: Executions that may wait in the backend's queue; None to execute
                synchronously.
            advance: Called after each inference.

        Raises:
            DovetailError: A file cannot be read or written, or the backend failed.
        """
        start = time.perf_counter()
        inferences = self._inferences()
        overlapping = () if queue_depth is None else self._overlapping(queue_depth, inferences)
        # one by one: the inferences that the overlapping loop leaves, maybe all
        for slot in chain(overlapping, self._one_by_one(inferences)):
            self._timings.take(slot.profile)
            ended = time.perf_counter()
            self._write(slot)
            written_s = ended, time.perf_counter()
            self._timings.log.inference(self._graph.name, slot.number, slot.read_s, written_s)
            self._free.append(slot)
            advance()
        self._timings.wall_s = time.perf_counter() - start
        for slot in self._slots:  # after an error the backend's end frees them
            slot.profile.free()
            if slot.signal is not None:
                slot.signal.free()

    def _one_by_one(self, inferences: Iterator[int]) -> Iterator[_Slot]:
        for inference in inferences:
            slot = self._take_slot()
            self._read(slot, inference)
            self._graph.execute(slot.inputs, slot.outputs, slot.profile, slot.signal)
            yield slot

    def _overlapping(self, queue_depth: int, inferences: Iterator[int]) -> Iterator[_Slot]:
        """Yield each slot whose execution ended, in order.

        Stop and leave the other inferences if overlapping does not pay.
        """
        limit = min(_IN_FLIGHT, queue_depth)
        flying: deque[_Slot] = deque()
        for inference in inferences:
            slot = self._take_slot()
            self._read(slot, inference)
            ended = _landed(flying) if len(flying) == limit else None
            slot.execution = self._graph.execute_async(
                slot.inputs, slot.outputs, slot.profile, slot.signal
            )
            flying.append(slot)
            if ended is not None:
                yield ended
                if not self._pays():
                    break
        while flying:
            yield _landed(flying)

    def _pays(self) -> bool:
        """Return whether executions are long enough for overlap."""
        known = self._timings.execute_us
        return len(known) != _PROBED or min(known) >= _PAYS_US

    def _take_slot(self) -> _Slot:
        """Return a slot that is free, a new one if there is none."""
        if self._free:
            return self._free.pop()
        backend = self._graph.context.backend
        timeout = self._request.timeout_us
        slot = _Slot(
            {name: RawReader(form) for name, form in self._job.feed.forms.items()},
            {t.name: np.empty(t.shape, t.dtype.storage) for t in self._graph.outputs},
            backend.create_profile(self._level),
            None if timeout is None else backend.create_signal(SignalKind.TIMEOUT, timeout),
            len(self._slots),
        )
        self._slots.append(slot)
        return slot

    def _inferences(self) -> Iterator[int]:
        """Yield the numbers of the inferences to run."""
        count, seconds = self._request.num_inferences, self._request.duration_s
        if count is None and seconds is None:
            count = self._job.feed.inferences
        end = None if seconds is None else time.monotonic() + seconds
        number = 0
        while count is None or number < count:
            if number and end is not None and time.monotonic() >= end:
                return
            yield number
            number += 1

    def _read(self, slot: _Slot, inference: int) -> None:
        start = time.perf_counter()
        feed = self._job.feed
        feed.fill(slot.readers, inference % feed.inferences)
        slot.inference = inference
        slot.read_s = start, time.perf_counter()
        self._timings.read.add((slot.read_s[1] - start) * 1e6)

    def _write(self, slot: _Slot) -> None:
        feed, keep = self._job.feed, self._request.keep_outputs
        if slot.inference >= feed.inferences:  # the first loop has written this result
            return
        start = time.perf_counter()
        group = feed.group(slot.inference)
        for line in group:
            if keep is not None and line >= keep:
                break
            name = f"Result_{line}"
            part = line - group.start
            try:
                write_result(self._folder / name, self._job.files, slot.outputs, part, feed.batch)
            except OSError as error:
                # reported with its final path
                path = self._request.output_dir / self._job.folder / name
                raise unwritable(path, error) from error
            self.results += 1
        self._timings.write.add((time.perf_counter() - start) * 1e6)


def _landed(flying: deque[_Slot]) -> _Slot:
    slot = flying.popleft()
    if slot.execution is not None:
        slot.execution.wait()
    return slot
