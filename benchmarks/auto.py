"""Measure the choice of the backend `auto` next to the fastest of its candidates.

    python -m benchmarks.auto [--quick]

For each network, `auto` chooses without kept decisions; then `auto` and each candidate run in
alternating bursts. The regret is the time of the chosen candidate over that of the fastest one, the
cost the time of a session of `auto` over one of the chosen backend.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import model_files, tables
from benchmarks.__main__ import count, names, tell
from benchmarks.machine import machine
from benchmarks.measure_auto import AUTO
from benchmarks.process import ask
from benchmarks.recipes import RECIPES
from benchmarks.small_networks import SMALL

TARGET = 0.10


@dataclass(frozen=True, slots=True)
class Row:
    """The result of one network.

    Attributes:
        network: Its name.
        chosen: The chosen candidate.
        best: The fastest candidate.
        regret: Time of the chosen candidate over that of the fastest one, minus 1.
        cost: Time of `auto` over that of the chosen candidate alone, minus 1.
        decided_s: Seconds in which the session of `auto` was ready.
        ms: Median milliseconds by backend.
    """

    network: str
    chosen: str
    best: str
    regret: float
    cost: float
    decided_s: float
    ms: Mapping[str, float]

    @classmethod
    def of(cls, network: str, found: Mapping[str, Any]) -> Row:
        """Return the row of a measurement."""
        alone = {name: ms for name, ms in found["ms"].items() if name != AUTO}
        best, chosen = min(alone, key=lambda name: alone[name]), found["chosen"]
        return cls(
            network,
            chosen,
            best,
            alone[chosen] / alone[best] - 1,
            found["ms"][AUTO] / alone[chosen] - 1,
            found["decided_s"],
            found["ms"],
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 0."""
    options = _options(arguments)
    rows = []
    for network in options.networks:
        tell(network)
        files = None
        if network in RECIPES:
            files = model_files.prepare(network, options.cache, threads=options.threads)
        asked = {
            "network": network,
            "model": "" if files is None else str(files.dvt),
            "candidates": options.candidates,
            "rounds": 5 if options.quick else options.rounds,
            "burst_s": 0.01 if options.quick else 0.02,
            "trial_seconds": 0.05 if options.quick else options.trial_seconds,
        }
        rows.append(Row.of(network, ask("measure_auto:measure", asked, threads=options.threads)))
    if options.json:
        print(json.dumps({"machine": machine(), "rows": [asdict(r) for r in rows]}, indent=1))
    else:
        print(as_text(rows))
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    known = [*RECIPES, *SMALL]
    parser = argparse.ArgumentParser("python -m benchmarks.auto", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--networks", type=names(known), default=known, metavar="A,B")
    parser.add_argument(
        "--candidates", default="", help="backends (default: those of auto, plain and single)"
    )
    parser.add_argument("--rounds", type=count, default=40, help="bursts of each (default: 40)")
    parser.add_argument("--threads", type=count, default=2, help="threads of each (default: 2)")
    parser.add_argument("--trial-seconds", type=float, default=0.3, help="option of auto")
    parser.add_argument("--quick", action="store_true", help="short bursts, for a rough idea")
    parser.add_argument(
        "--cache", type=Path, default=model_files.FOLDER, help="folder of the models"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser.parse_args(arguments)


def as_text(rows: Sequence[Row]) -> str:
    """Return the table, and a summary."""
    backends = list(dict.fromkeys(name for row in rows for name in row.ms if name != AUTO))
    head = [
        "network",
        "chosen",
        "best",
        "regret",
        "cost",
        "ready s",
        *(f"{b} ms" for b in backends),
    ]
    body = [
        [
            row.network,
            row.chosen,
            row.best,
            f"{row.regret:.1%}",
            f"{row.cost:+.1%}",
            f"{row.decided_s:.2f}",
            *(f"{row.ms[name]:.3f}" if name in row.ms else "-" for name in backends),
        ]
        for row in rows
    ]
    within = sum(row.regret <= TARGET for row in rows)
    regrets = [row.regret for row in rows]
    summary = (
        f"within {TARGET:.0%} of the best on {within} of {len(rows)} networks; "
        f"regret: mean {statistics.mean(regrets):.1%}, largest {max(regrets):.1%}"
    )
    return "\n\n".join([tables.table(head, body), summary])


if __name__ == "__main__":
    sys.exit(main())
