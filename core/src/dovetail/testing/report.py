"""The report: passed, unsupported and failed results by area and by op."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dovetail.testing.outcome import Status

OPS_AREA = "op cases"


@dataclass(frozen=True, slots=True)
class Row:
    """The result of a check or a case.

    Attributes:
        area: Its area, such as `life cycle` or `op cases`.
        subject: Full name of the op; empty for checks that are not about an op.
        name: Name of the check or the case.
        status: The result.
        reason: Why it is unsupported or failed.
    """

    area: str
    subject: str
    name: str
    status: Status
    reason: str = ""


@dataclass(slots=True)
class Report:
    """All results of a run of the kit.

    Attributes:
        title: The subject, in words.
        rows: The results so far.
        missing: Full names of the ops without a case.
        versions: Versions of the dists under test and of core, by name.
    """

    title: str
    rows: list[Row] = field(default_factory=list)
    missing: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """Yield the report as a table: areas, then ops."""
        yield from _table("area", self._counts("area"))
        by_op = self._counts("subject")
        if by_op:
            yield ""
            yield from _table("op", by_op)
        if self.missing:
            yield ""
            yield f"ops without a case: {', '.join(self.missing)}"

    def data(self) -> dict[str, Any]:
        """Return the report as plain data, for JSON."""
        total = Counter(str(row.status) for row in self.rows)
        return {
            "title": self.title,
            "versions": dict(self.versions),
            "total": _numbers(total),
            "areas": {k: _numbers(v) for k, v in self._counts("area").items()},
            "ops": {k: _numbers(v) for k, v in self._counts("subject").items()},
            "without_case": list(self.missing),
            "results": [
                {
                    "area": row.area,
                    "op": row.subject or None,
                    "name": row.name,
                    "status": str(row.status),
                    "reason": row.reason or None,
                }
                for row in self.rows
            ],
        }

    def _counts(self, attribute: str) -> dict[str, Counter[str]]:
        """Return the number of results of each status, by area (in order) or by op (sorted)."""
        counts: dict[str, Counter[str]] = {}
        for row in self.rows:
            if key := getattr(row, attribute):
                counts.setdefault(key, Counter())[str(row.status)] += 1
        return counts if attribute == "area" else dict(sorted(counts.items()))


def _numbers(counts: Counter[str]) -> dict[str, int]:
    return {str(status): counts[str(status)] for status in Status}


def _table(head: str, counts: dict[str, Counter[str]]) -> Iterator[str]:
    width = max(map(len, (head, "total", *counts)))
    yield f"{head:<{width}}" + "".join(f"{status:>13}" for status in Status)
    for name, row in (*counts.items(), ("total", sum(counts.values(), Counter()))):
        yield f"{name:<{width}}" + "".join(f"{row[str(status)]:>13}" for status in Status)
