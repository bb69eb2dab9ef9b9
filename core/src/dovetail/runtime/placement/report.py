"""The report on a placement: what runs where, and why not on the first backend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from dovetail.errors import counted, listed

_SHOWN = 3  # nodes that one line of text names


class Share(msgspec.Struct, frozen=True):
    """The share of a backend in a graph.

    Attributes:
        backend: Name of the backend.
        nodes: Number of nodes that it runs.
        macs: Their multiply-accumulates.
        parts: Number of parts that the nodes form.
    """

    backend: str
    nodes: int
    macs: int
    parts: int


class Moved(msgspec.Struct, frozen=True):
    """A node that does not run on the first backend.

    Attributes:
        node: The node in the user's terms.
        backend: Name of the backend that runs it.
        reason: The first reason why it is there.
    """

    node: str
    backend: str
    reason: str


class Candidate(msgspec.Struct, frozen=True, omit_defaults=True):
    """A candidate of the backend `auto`.

    Attributes:
        backend: The backend, or `hetero` with an order.
        ms: Median time of an inference in the trial, in milliseconds; None if it was not measured.
        excluded: Reason why it was not chosen, whatever its time; empty if there is none.
    """

    backend: str
    ms: float | None = None
    excluded: str = ""


class Choice(msgspec.Struct, frozen=True, omit_defaults=True):
    """The choice of the backend `auto`.

    Attributes:
        backend: The chosen candidate.
        reason: Reason for the choice.
        candidates: All candidates.
        cached: Whether it was decided before, on this machine.
    """

    backend: str
    reason: str
    candidates: tuple[Candidate, ...]
    cached: bool = False

    def lines(self) -> Iterator[str]:
        """Yield the choice as lines of text."""
        known = " (decided before on this machine)" if self.cached else ""
        yield f"auto: {self.backend}, {self.reason}{known}"
        for each in self.candidates if len(self.candidates) > 1 else ():
            time = "" if each.ms is None else f" {each.ms:.3f} ms per inference"
            excluded = f" excluded: {each.excluded}" if each.excluded else ""
            yield f"candidate {each.backend}:{time}{excluded or ('' if time else ' not measured')}"


class Placement(msgspec.Struct, frozen=True, omit_defaults=True):
    """Shares of the backends in a graph, and reasons.

    Attributes:
        shares: The share of each backend, in the order of the config.
        moved: The nodes that do not run on the first backend, in the order of the graph.
        seam_bytes: Bytes that a run passes from part to part.
        choice: The choice of the backend `auto`; None for others.
    """

    shares: tuple[Share, ...]
    moved: tuple[Moved, ...]
    seam_bytes: int
    choice: Choice | None = None

    def data(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return found

    def lines(self) -> Iterator[str]:
        """Yield the report as lines of text; one line names the nodes with the same reason."""
        if self.choice is not None:
            yield from self.choice.lines()
        nodes, macs = (sum(getattr(s, what) for s in self.shares) for what in ("nodes", "macs"))
        for share in self.shares:
            yield (
                f"{share.backend}: {_of(share.nodes, nodes, 'node')}, "
                f"{_of(share.macs, macs, 'MAC')}, {counted(share.parts, 'part')}"
            )
        if self.seam_bytes:
            yield f"{self.seam_bytes:,} bytes pass from part to part in each run"
        reasons: dict[tuple[str, str], list[str]] = {}
        for moved in self.moved:
            reasons.setdefault((moved.backend, moved.reason), []).append(moved.node)
        for (backend, reason), names in reasons.items():
            yield f"on {backend}: {listed(names, _SHOWN)}: {reason}"


def _of(count: int, total: int, unit: str) -> str:
    percent = f" ({100 * count / total:.1f}%)" if total else ""
    return f"{counted(count, unit)}{percent}"
