"""The loop over one graph's inferences: read, execute and write, with or without overlap."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from dovetail.cli.progress import Advance
from dovetail.files import unwritable
from dovetail.runtime import Graph, ProfilingWindow
from dovetail_tools._net_run.input_sets import InputSets
from dovetail_tools._net_run.jobs import Job
from dovetail_tools._net_run.output_files import write_result
from dovetail_tools._net_run.overlap import OverlapLimits
from dovetail_tools._net_run.request import Request
from dovetail_tools._net_run.slots import Slot, Slots
from dovetail_tools._timings import Timings

# For shorter executions, overlap was measured to increase latency and to reduce throughput: the
# digits demo took 0.15 ms at the median instead of 0.054, and occasionally 16 ms.
_PAYS_US = 2000.0
_PROBED = 3  # inferences measured before the decision


class JobRunner:
    """Runs one graph over its list.

    Args:
        job: The job to run.
        graph: Its handle, finalized.
        request: Number of inferences, and results to keep.
        level: Level of the profiles.
        window: The executions that are profiled.
        folder: Folder of the results; created for the first one.
        timings: Receives the times.
    """

    def __init__(
        self,
        job: Job,
        graph: Graph,
        request: Request,
        level: int,
        window: ProfilingWindow,
        folder: Path,
        timings: Timings,
    ) -> None:
        self._job = job
        self._graph = graph
        self._request = request
        self._window = window
        self._folder = folder
        self._timings = timings
        repeats = request.num_inferences is not None or request.duration_s is not None
        self._sets = InputSets(job.feed, request.input_cache if repeats else None)
        self._slots = Slots(
            job,
            graph,
            self._sets,
            level,
            request.timeout_us,
            has_timers=window.is_limited,
            is_shared=request.shares_buffers,
        )
        self.results = 0

    def run(self, limits: OverlapLimits | None, advance: Advance) -> None:
        """Run all inferences.

        Args:
            limits: Limits of inferences that overlap; None to execute synchronously.
            advance: Called after each inference.

        Raises:
            DovetailError: A file cannot be read or written, or the backend failed.
        """
        start = time.perf_counter()
        inferences = self._inferences()
        overlapping = () if limits is None else self._overlapping(limits, inferences)
        # one by one: the inferences that the overlapping loop leaves, maybe all
        for slot in chain(overlapping, self._one_by_one(inferences)):
            self._timings.take_inference(slot.profile, slot.timer)
            ended = time.perf_counter()
            self._write(slot)
            written_s = ended, time.perf_counter()
            self._timings.log.inference(self._graph.name, slot.number, slot.read_s, written_s)
            self._slots.put_back(slot)
            advance()
        self._timings.wall_s = time.perf_counter() - start
        self._slots.free_handles()  # after an error the backend's end frees them

    def _one_by_one(self, inferences: Iterator[int]) -> Iterator[Slot]:
        for inference in inferences:
            slot = self._slots.take()
            self._read(slot, inference)
            for inputs, outputs, signal in self._slots.parts(slot):
                profile = slot.profile if self._window.admits() else slot.timer
                self._graph.execute(inputs, outputs, profile, signal)
            yield slot

    def _overlapping(self, limits: OverlapLimits, inferences: Iterator[int]) -> Iterator[Slot]:
        """Yield each slot whose executions ended, in order.

        Stop and leave the other inferences if overlapping does not pay.
        """
        ready: deque[Slot] = deque()  # their inputs are read
        running: deque[Slot] = deque()  # their executions are queued
        is_over = False
        while True:
            is_probing = len(self._timings.execute_us) < _PROBED
            now = limits.while_probing() if is_probing else limits
            if ready and _queued(running) < now.executions:
                self._enqueue(ready.popleft(), running, now.executions)
            elif not is_over and len(ready) < now.input_sets:
                inference = next(inferences, None)
                is_over = inference is None
                if inference is not None:
                    ready.append(self._slots.take())
                    self._read(ready[-1], inference)
            elif running:
                yield _finished(running)
                is_over = is_over or not self._pays()
            else:
                return

    def _enqueue(self, slot: Slot, running: deque[Slot], limit: int) -> None:
        """Queue the executions of a slot; wait for the oldest ones while there are too many."""
        running.append(slot)
        for inputs, outputs, signal in self._slots.parts(slot):
            while _queued(running) >= limit:
                next(each for each in running if each.executions).executions.pop(0).wait()
            profile = slot.profile if self._window.admits() else slot.timer
            slot.executions.append(self._graph.execute_async(inputs, outputs, profile, signal))

    def _pays(self) -> bool:
        """Return whether executions are long enough for overlap."""
        known = self._timings.execute_us
        return len(known) != _PROBED or min(known) >= _PAYS_US

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

    def _read(self, slot: Slot, inference: int) -> None:
        start = time.perf_counter()
        slot.inputs, was_read = self._sets.load(slot.readers, inference)
        slot.inference = inference
        slot.read_s = start, time.perf_counter()
        if was_read:
            self._timings.read.add((slot.read_s[1] - start) * 1e6)

    def _write(self, slot: Slot) -> None:
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


def _queued(slots: deque[Slot]) -> int:
    """Return the number of executions of slots that have not been waited for."""
    return sum(len(slot.executions) for slot in slots)


def _finished(running: deque[Slot]) -> Slot:
    """Return the oldest slot after its executions have ended."""
    slot = running.popleft()
    while slot.executions:
        slot.executions.pop(0).wait()
    return slot
