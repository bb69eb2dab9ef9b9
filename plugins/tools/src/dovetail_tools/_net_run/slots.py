"""Slots: the reusable buffers and handles of the inferences in progress."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from dovetail.cli.inputs.raw_files import RawReader
from dovetail.ir import Array
from dovetail.runtime import Execution, Graph, Memory, Profile, ProfileLevel, Signal, SignalKind
from dovetail_tools._net_run.input_sets import InputSets
from dovetail_tools._net_run.jobs import Job
from dovetail_tools._net_run.parts import multiplied, split_parts
from dovetail_tools._net_run.shared_buffers import SharedBuffers

# Arrays or memory handles, by tensor name.
Buffers = Mapping[str, Array | Memory]


@dataclass(slots=True)
class Slot:
    """The buffers and handles of one inference.

    Attributes:
        readers: Readers of its inputs.
        outputs: Stored values of its outputs.
        profile: Profile of the executions that are profiled, and of all if none is left out.
        timer: Profile of the executions that are only timed; None if all are profiled.
        signals: The signal of each execution, or None.
        number: Number of the slot.
        inputs: Stored values of the inputs, once they are loaded.
        inference: Number of the inference.
        read_s: Start and end of loading its inputs, in seconds.
        executions: Its executions in the queue that have not been waited for.
    """

    readers: Mapping[str, RawReader]
    outputs: Mapping[str, Array]
    profile: Profile
    timer: Profile | None
    signals: tuple[Signal | None, ...]
    number: int
    inputs: Mapping[str, Array] = field(default_factory=dict)
    inference: int = 0
    read_s: tuple[float, float] = (0.0, 0.0)
    executions: list[Execution] = field(default_factory=list)

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """Its profiles."""
        return (self.profile,) if self.timer is None else (self.profile, self.timer)


class Slots:
    """Creates the slots of a graph as they are needed.

    Args:
        job: The job to run.
        graph: Its handle, finalized.
        sets: Its input sets.
        level: Level of the profiles.
        timeout_us: Time limit of an execution in microseconds, or None.
        has_timers: Whether some executions may not be profiled.
        is_shared: Whether the buffers are registered with the context.
    """

    def __init__(
        self,
        job: Job,
        graph: Graph,
        sets: InputSets,
        level: int,
        timeout_us: int | None,
        *,
        has_timers: bool,
        is_shared: bool,
    ) -> None:
        self._job = job
        self._backend = graph.context.backend
        self._sets = sets
        self._level = level
        self._timeout_us = timeout_us
        self._has_timers = has_timers
        self._shared: SharedBuffers | None = None
        if is_shared:
            ends = {t.name: t for t in (*graph.inputs, *graph.outputs)}
            self._shared = SharedBuffers(graph.context, ends)
        self._outputs, _ = multiplied(graph.outputs, job.parts)
        self._slots: list[Slot] = []
        self._free: list[Slot] = []

    def take(self) -> Slot:
        """Return a slot that is free, a new one if there is none."""
        if self._free:
            return self._free.pop()
        create = self._backend.create_profile
        slot = Slot(
            self._sets.new_readers(),
            {t.name: np.empty(t.shape, t.dtype.storage) for t in self._outputs.values()},
            create(self._level),
            create(ProfileLevel.BASIC) if self._has_timers else None,
            tuple(self._new_signal() for _ in range(self._job.parts)),
            len(self._slots),
        )
        self._slots.append(slot)
        return slot

    def parts(self, slot: Slot) -> Iterator[tuple[Buffers, Buffers, Signal | None]]:
        """Yield inputs, outputs and signal of each execution of a slot."""
        count = self._job.parts
        inputs, outputs = split_parts(slot.inputs, count), split_parts(slot.outputs, count)
        for given, taken, signal in zip(inputs, outputs, slot.signals, strict=True):
            if self._shared is None:
                yield given, taken, signal
            else:
                yield self._shared.handles(given), self._shared.handles(taken), signal

    def put_back(self, slot: Slot) -> None:
        """Mark a slot as free."""
        self._free.append(slot)

    def free_handles(self) -> None:
        """Free the handles of all slots."""
        if self._shared is not None:
            self._shared.free()
        for slot in self._slots:
            for profile in slot.profiles:
                profile.free()
            for signal in filter(None, slot.signals):
                signal.free()

    def _new_signal(self) -> Signal | None:
        if self._timeout_us is None:
            return None
        return self._backend.create_signal(SignalKind.TIMEOUT, self._timeout_us)
