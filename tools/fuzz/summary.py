"""Counts of a run's outcomes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from fuzz.trial import Outcome

_SHOWN = 8


class Summary:
    """Counts the outcomes of files."""

    def __init__(self) -> None:
        self._verdicts: Counter[str] = Counter()
        self._slowest = self._largest = (0.0, -1)
        self.findings: dict[str, list[int]] = defaultdict(list)
        self.details: dict[str, str] = {}

    def add(self, number: int, outcome: Outcome) -> None:
        """Count an outcome."""
        self._verdicts["finding" if outcome.is_finding else outcome.verdict] += 1
        self._slowest = max(self._slowest, (outcome.seconds, number))
        self._largest = max(self._largest, (outcome.peak_bytes / 2**20, number))
        if outcome.is_finding:
            self.findings[outcome.verdict].append(number)
            self.details.setdefault(outcome.verdict, outcome.detail)

    def lines(self, seconds: float) -> Iterator[str]:
        """Yield the lines of the report."""
        total = self._verdicts.total()
        yield f"mutations        {total} in {seconds:.0f} s"
        yield f"succeeded        {self._verdicts['succeeded']}"
        for verdict, count in self._verdicts.most_common():
            if verdict not in ("succeeded", "finding"):
                yield f"rejected         {count} {verdict}"
        yield f"slowest          {self._slowest[0]:.2f} s (--only {self._slowest[1]})"
        yield f"largest memory   {self._largest[0]:.0f} MiB (--only {self._largest[1]})"
        yield f"findings         {self._verdicts['finding']}"
        for verdict, numbers in sorted(self.findings.items(), key=lambda item: -len(item[1])):
            listed = ", ".join(map(str, numbers[:_SHOWN]))
            more = ", ..." if len(numbers) > _SHOWN else ""
            yield f"  {len(numbers):>5} {verdict}  (--only {listed}{more})"
