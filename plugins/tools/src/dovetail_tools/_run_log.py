"""The profile log of a run: calls of the runtime, and the times that the command measures."""

from __future__ import annotations

from pathlib import Path

from dovetail.container import Closing
from dovetail.runtime import EventType, ProfiledCall, ProfileEvent, ProfileLog
from dovetail_tools._net_run.request import Profiling

# The SDK's name for its log, whose content is not documented; ours is in docs/profiling.md.
NAME = "qnn-profiling-data_0.log"


class RunLog(Closing):
    """Writes the profile log of a run, if one is requested. A context manager.

    Args:
        folder: Folder of the log.
        level: Profiling level; None for no log.
        max_events: Maximum number of events of the runtime for each graph; None without a limit.
    """

    def __init__(
        self, folder: Path, level: Profiling | None, max_events: int | None = None
    ) -> None:
        self._log = None if level is None else ProfileLog(folder / NAME, max_events)
        self._level = level

    def call(self, event: ProfileEvent) -> None:
        """Write a call of the runtime, unless only the command's own times are requested."""
        if self._log is not None and self._level is not Profiling.CLIENT:
            self._log.write(event)

    def prepared(self, graph: str, start_s: float, took_us: float) -> None:
        """Write that a graph was composed and finalized.

        Args:
            graph: Its name.
            start_s: Time of the start in seconds.
            took_us: Duration in microseconds.
        """
        if self._log is not None:
            event = ProfileEvent(EventType.INIT, "prepare", took_us, start_us=start_s * 1e6)
            self._log.write(event, call=ProfiledCall.APP_COMPOSE_GRAPHS, graph=graph)

    def inference(
        self,
        graph: str,
        lane: int,
        read: tuple[float, float],
        write: tuple[float, float],
    ) -> None:
        """Write an inference, from its first input read to its last result written.

        Args:
            graph: Its graph.
            lane: Number of the buffers that it used; those of several overlap.
            read: Start and end of reading its inputs, in seconds.
            write: Start and end of writing its results, in seconds.
        """
        if self._log is None:
            return
        parts = (
            _span(EventType.EXECUTE_PREPROCESS, "read", *read),
            _span(EventType.EXECUTE_POSTPROCESS, "write", *write),
        )
        event = _span(
            EventType.EXECUTE, "inference", read[0], write[1], parts, f"inferences {lane}"
        )
        self._log.write(event, call=ProfiledCall.APP_EXECUTE_IPS, graph=graph)

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._log is not None:
            self._log.close()


def _span(
    kind: EventType,
    name: str,
    start_s: float,
    end_s: float,
    parts: tuple[ProfileEvent, ...] = (),
    queue: str = "",
) -> ProfileEvent:
    took_us = (end_s - start_s) * 1e6
    return ProfileEvent(kind, name, took_us, children=parts, start_us=start_s * 1e6, queue=queue)
