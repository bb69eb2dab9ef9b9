"""The profile log of a session."""

from __future__ import annotations

from dovetail.container import Closing
from dovetail.files import PathLike
from dovetail.runtime import Backend, Graph, Profile, ProfileLog, ProfilingWindow


class SessionLog(Closing):
    """The log to which a session appends its calls.

    Args:
        path: The log.
        backend: The backend whose calls are measured.
        level: Level of the log: a `ProfileLevel`, or one of the backend's own.
        max_events: As in `ProfileLog`.

    Attributes:
        profile: Measures the calls that are logged.

    Raises:
        BackendError: The backend does not have the level.
        ContainerError: The log cannot be written.
    """

    def __init__(
        self, path: PathLike, backend: Backend, level: int, max_events: int | None
    ) -> None:
        self.profile = backend.create_profile(level)
        self._log = ProfileLog(path, max_events)
        self._windows: dict[str, ProfilingWindow] = {}
        self.profile.stream_to(self._log.write)

    def profile_of(self, graph: Graph) -> Profile | None:
        """Return the profile for a run that begins now; None if the graph's config excludes it."""
        window = self._windows.get(graph.name)
        if window is None:  # another thread may be as quick: `setdefault` returns the first one
            window = self._windows.setdefault(graph.name, ProfilingWindow.of(graph.config))
        return self.profile if window.admits() else None

    def close(self) -> None:
        """Close the file; the backend frees the profile."""
        self._log.close()
