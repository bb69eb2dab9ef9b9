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

from partial_backends import LeftBackend
from reference_backend import BareBackend, ReferenceBackend
from updating_backend import UpdatingBackend

import dovetail as dt
from dovetail.ops import OpPackage
from dovetail.runtime.calls import CallRecord, InstalledResolver, differences
from dovetail.testing import CHECKS, Bench, OpCase, run_case, run_check
from dovetail.testing.ops import HALVE, PACKAGE
from dovetail.testing.outcome import Outcome
from dovetail_saver.replay import replay
from dovetail_saver.trace import Trace

PACKAGES = [PACKAGE, OpPackage("dovetail.testing.another")]
CLASSES: dict[str, Any] = {
    cls.name: cls for cls in (ReferenceBackend, BareBackend, UpdatingBackend, LeftBackend)
}


# Its threads free one context, so that one call makes the others fail. The records are in the order
# of the returns, in which one that failed may precede the one that was its reason; a replay makes
# one call after another.
RACING = ("contexts_are_freed_once",)


def record_checks(folder: Path, backend: str) -> dict[str, Outcome]:
    """Run the checks of the kit, and record all of it.

    Args:
        folder: Folder of the trace.
        backend: One of the classes, or an installed backend.

    Returns:
        The outcomes of the checks, by their names.
    """
    packages = [PACKAGE] if backend in CLASSES and backend != ReferenceBackend.name else ()
    bench = Bench(CLASSES.get(backend, backend), cases=HALVE, packages=packages)
    with dt.record(folder):
        return {check.id: run_check(bench, check) for check in CHECKS if check.name not in RACING}


def record_cases(folder: Path, backend: str, cases: Sequence[OpCase]) -> None:
    """Run cases of ops on an installed backend, and record all of it."""
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
