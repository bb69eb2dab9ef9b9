"""How OpenMP's threads wait: set before its library is loaded, unless somebody else was first.

libgomp reads the settings once in a process, so each test has one, and prints what it read.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from dovetail_onednn.openmp import SPIN_COUNT, WAIT_VARIABLES

LOAD = """
import os
from dovetail_onednn import library, threads_note
found = library()
print(os.environ.get("GOMP_SPINCOUNT"), found.openmp_came_first, found.own_threads)
print(threads_note(found))
"""
FIRST = "import ctypes; ctypes.CDLL('libgomp.so.1')\n"


def run(program: str, **variables: str) -> tuple[list[str], str]:
    """Return what a new process prints, and the spin count that its libgomp read."""
    kept = {k: v for k, v in os.environ.items() if k not in (*WAIT_VARIABLES, "OMP_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=kept | {"OMP_DISPLAY_ENV": "verbose"} | variables,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    (spin,) = (line for line in done.stderr.splitlines() if "GOMP_SPINCOUNT" in line)
    return done.stdout.splitlines(), spin.split("'")[1]


def test_threads_spin_briefly_and_children_inherit_nothing() -> None:
    (state, note), spin = run(LOAD)
    assert spin == SPIN_COUNT
    assert state.split()[:2] == ["None", "False"]
    assert note == ""


@pytest.mark.parametrize(
    ("variables", "spin"),
    [({"GOMP_SPINCOUNT": "77"}, "77"), ({"OMP_WAIT_POLICY": "passive"}, "0")],
)
@pytest.mark.parametrize("first", ["", FIRST])
def test_a_users_own_choice_wins(variables: dict[str, str], spin: str, first: str) -> None:
    (state, note), found = run(first + LOAD, **variables)
    assert found == spin
    assert state.split()[:2] == [variables.get("GOMP_SPINCOUNT", "None"), str(bool(first))]
    assert note == ""


def test_a_library_that_was_loaded_before_is_noticed() -> None:
    (state, note), spin = run(FIRST + LOAD)
    assert int(spin) > int(SPIN_COUNT)
    assert state.split()[:2] == ["None", "True"]
    assert f"GOMP_SPINCOUNT={SPIN_COUNT}" in note


def test_quotas_limit_the_default_number_of_threads() -> None:
    quota = "from dovetail_onednn import _library\n_library.usable_processors = lambda: 1\n"
    (state, _), _ = run(quota + LOAD)
    assert state.split()[2] == "1"
    (state, _), _ = run(quota + LOAD, OMP_NUM_THREADS="3")  # the user's
    assert state.split()[2] == "3"
