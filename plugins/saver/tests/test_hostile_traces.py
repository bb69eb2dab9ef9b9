"""Mutated traces end every command with a documented exit code, never with a bug of ours."""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from recorded_sessions import asynchronous, quantized, record, with_memory, with_updates

SESSIONS = (asynchronous, quantized, with_memory, with_updates)
MUTATIONS = 3  # of each session
VALUES = (
    *("0", "-1", "9223372036854775807", "1e300", '""', "null", "[]", "{}", '"x"', "[null]"),
    *('"../../x"', "true", "99999999999999"),
)
# a check failed, usage, an invalid trace, an unsupported op, a backend's error
DOCUMENTED = {0, 1, 2, 3, 4, 7}


def mutated(text: str, rng: random.Random) -> str:
    """Remove, repeat or exchange lines, or replace values in them."""
    lines = text.splitlines(keepends=True)
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(10)
    if kind == 0:
        del lines[one]
    elif kind == 1:
        lines.insert(one, lines[other])
    elif kind == 2:
        lines[one], lines[other] = lines[other], lines[one]
    else:
        tokens = list(re.finditer(r'-?\d+(\.\d+)?|"[^"]*"|null|true|false', lines[one]))
        at = rng.choice(tokens)
        lines[one] = lines[one][: at.start()] + rng.choice(VALUES) + lines[one][at.end() :]
    return "".join(lines)


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.__name__)
def test_commands_survive_mutations(tmp_path: Path, dovetail: Any, session: Any) -> None:
    whole, out = record(tmp_path / "whole", session), tmp_path / "out"
    rng = random.Random(session.__name__)
    for number in range(MUTATIONS):
        trace = tmp_path / f"trace{number}"
        shutil.copytree(whole, trace)
        calls = trace / "calls.jsonl"
        calls.write_text(mutated(calls.read_text("utf-8"), rng), "utf-8")
        new = ("--out", out / str(number))
        for command in (
            *(("trace", name, trace) for name in ("info", "stats", "dump", "verify")),
            ("trace", "diff", whole, trace),
            ("trace", "trim", trace, "--calls", "3-9", *new),
            ("trace", "redact", trace, "--redact", "weights", "--redact", "inputs", *new),
            ("replay", trace, "--compare", "exact", "--keep-going"),
            ("replay", trace, "--backend", "hetero:cpu", "--threads", "as-recorded"),
            ("trace", "export", "python", trace, *new),
            ("trace", "export", "model", trace, "--out", out / f"{number}.dvt"),
        ):
            done = dovetail(*command)
            assert done.code in DOCUMENTED, (command, calls.read_text("utf-8"), done.err)
    found = {path.name for path in tmp_path.iterdir()} - {"whole", "out"}
    assert found == {f"trace{number}" for number in range(MUTATIONS)}
