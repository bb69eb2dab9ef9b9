"""Summaries of imports and exports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

MOST = 20  # lines that are listed


@dataclass(slots=True)
class Summary:
    """Outcome of a conversion between a program and a trace.

    Attributes:
        calls: Number of calls by our name.
        left_out: What has no equivalent: where, and what it is; the first of them.
        left_out_count: Number of all of them.
        unread_bytes: Bytes of the payloads that the program does not read.
    """

    calls: Counter[str] = field(default_factory=Counter)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    left_out_count: int = 0
    unread_bytes: int = 0

    def leave_out(self, where: Callable[[], str], what: str) -> None:
        """Note what has no equivalent; `where` is called only for what is listed."""
        self.left_out_count += 1
        if len(self.left_out) < MOST:
            self.left_out.append((where(), what))

    def lines(self, title: str) -> list[str]:
        """Return a title and a line for each thing that has no equivalent, if there are any."""
        if not self.left_out_count:
            return []
        found = [f"  {where}: {what}" for where, what in self.left_out]
        more = self.left_out_count - len(found)
        return [
            f"{title}: {self.left_out_count}",
            *found,
            *([f"  ... and {more} more"] if more else []),
        ]

    def data(self) -> dict[str, Any]:
        """Return the summary as plain data."""
        return {
            "calls": dict(self.calls),
            "left_out": [{"where": where, "what": what} for where, what in self.left_out],
            "left_out_count": self.left_out_count,
            "unread_bytes": self.unread_bytes,
        }
