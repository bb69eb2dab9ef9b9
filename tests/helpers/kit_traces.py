"""The API calls of the conformance kit: recorded as a trace, and replayed in a fresh process.

    python kit_traces.py FOLDER

replays them and prints a JSON object: the functions that were called, and every difference.
"""

from __future__ import annotations

import json
import logging
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reference_backend import BareBackend, ReferenceBackend
from updating_backend import UpdatingBackend

import dovetail as dt
from dovetail.ops import OpPackage
from dovetail.runtime.calls import CallRecord, InstalledResolver, differences
from dovetail.testing import CHECKS, Bench, OpCase, run_case, run_check
from dovetail.testing.ops import HALVE, PACKAGE
from dovetail_saver.replay import replay
from dovetail_saver.trace import Trace

PACKAGES = [PACKAGE, OpPackage("dovetail.testing.another")]
CLASSES: dict[str, Any] = {
    cls.name: cls for cls in (ReferenceBackend, BareBackend, UpdatingBackend)
}


def record_checks(folder: Path, backend: str) -> None:
    """Run the checks of the kit on one of the classes, and record all of it."""
    packages = () if backend == ReferenceBackend.name else [PACKAGE]
    bench = Bench(CLASSES[backend], cases=HALVE, packages=packages)
    with dt.record(folder):
        for check in CHECKS:
            run_check(bench, check)


def record_cases(folder: Path, backend: str, cases: Sequence[OpCase]) -> None:
    """Run cases of ops on an installed backend, and record all of it.

    The checks of the kit are run on the classes alone: some call from several threads at once, and
    a replay makes one call after another.
    """
    with dt.record(folder):
        for case in cases:
            run_case(Bench(backend), case)


def replay_all(folder: Path) -> dict[str, Any]:
    """Replay a trace on the same backend and compare each call with its record."""
    called: Counter[str] = Counter()
    found: list[str] = []
    for played in replay(Trace(folder), InstalledResolver(CLASSES, PACKAGES)):
        each = played.record
        name = each.function if isinstance(each, CallRecord) else "completion"
        called[name] += 1
        found += [f"call {each.number} ({name}): {text}" for text in differences(played)]
    return {"called": called, "differences": found}


if __name__ == "__main__":
    logging.getLogger("dovetail").setLevel(logging.ERROR)  # `htp` warns of float nodes
    print(json.dumps(replay_all(Path(sys.argv[1]))))
