"""The API calls of the conformance kit: recorded to a folder, and played in a fresh process.

    python kit_calls.py FOLDER

plays them and prints a JSON object: the functions that were played, and every difference.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
from reference_backend import BareBackend, ReferenceBackend
from updating_backend import UpdatingBackend

from dovetail.ir import Blob
from dovetail.ops import OpPackage
from dovetail.plugins.hooks import hooks
from dovetail.runtime.calls import (
    CallRecord,
    CallRecorder,
    InstalledResolver,
    MemoryPayloads,
    Player,
    Record,
    decode_record,
    differences,
)
from dovetail.testing import CHECKS, Bench, run_check
from dovetail.testing.ops import HALVE, PACKAGE

PACKAGES = [PACKAGE, OpPackage("dovetail.testing.another")]
BACKENDS = {cls.name: cls for cls in (ReferenceBackend, BareBackend, UpdatingBackend)}


def record(folder: Path) -> list[Record]:
    """Run the kit on each backend and write its calls."""
    lines: list[bytes] = []
    payloads = MemoryPayloads()
    with hooks.registered(CallRecorder(lines.append, payloads)):
        for backend in BACKENDS.values():
            packages = () if backend is ReferenceBackend else [PACKAGE]
            bench = Bench(backend, cases=HALVE, packages=packages)
            for check in CHECKS:
                run_check(bench, check)
    (folder / "calls.jsonl").write_bytes(b"\n".join(lines))
    for key, blob in payloads.blobs.items():
        (folder / key).write_bytes(blob.bytes.tobytes())
    return [decode_record(line) for line in lines]


class Folder:
    """Payloads in files."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, key: str) -> Blob | None:
        file = self._path / key
        return Blob(np.fromfile(file, np.uint8)) if file.is_file() else None


def play(folder: Path) -> dict[str, object]:
    """Play the calls of a folder and compare each with its record."""
    resolver = InstalledResolver(BACKENDS, PACKAGES)
    played: Counter[str] = Counter()
    found: list[str] = []
    with Player(Folder(folder), resolver) as player:
        for number, line in enumerate((folder / "calls.jsonl").read_bytes().split(b"\n"), 1):
            each = decode_record(line, f"line {number}")
            again = player.play(each)
            name = each.function if isinstance(each, CallRecord) else "completion"
            played[name] += 1
            found += [f"line {number} ({name}): {text}" for text in differences(again)]
    return {"played": played, "differences": found}


if __name__ == "__main__":
    print(json.dumps(play(Path(sys.argv[1]))))
