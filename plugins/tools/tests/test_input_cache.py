"""Input sets that stay in memory while lists are repeated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


@pytest.fixture
def three(new_net: Any, raw: Any, listing: Any) -> list[Any]:
    """Three input sets of 480 KB each."""
    net = new_net()
    net.save(net.node("ElementWiseNeg", net.input("x", 1, 120_000), name="y"))
    given = [raw(f"{i}.raw", np.full(120_000, i + 1.0)) for i in range(3)]
    listing("0.raw", "1.raw", "2.raw")
    return given


@pytest.mark.parametrize("mode", [[], ["--synchronous"]])
@pytest.mark.parametrize(
    ("options", "reads"),
    [
        ([], 9),
        (["--max-input-cache-tensor-sets", -1], 3),
        (["--max-input-cache-tensor-sets", 2], 2 + 3),  # the third set is read in each loop
        (["--max-input-cache-tensor-sets", 0], 9),
        (["--max-input-cache-size-mb", 1], 2 + 3),
        (["--max-input-cache-size-mb", 0], 9),
        (["--max-input-cache-size-mb", 5], 3),
    ],
)
def test_cached_sets_are_read_once(
    three: list[Any], run: Any, result: Any, mode: list[str], options: list[object], reads: int
) -> None:
    given = ("--model", "net.dvt", "--input-list", "list.txt", "--profiling-level", "client")
    done = run("--json", "net-run", *given, "--num-inferences", 9, *options, *mode)
    assert done.code == 0, done.err
    (times,) = done.data["profiling"]["graphs"]
    assert (times["client"]["inferences"], times["client"]["read"]["count"]) == (9, reads)
    for i, x in enumerate(three):
        np.testing.assert_array_equal(result("y.raw", index=i), -x)


def test_cached_sets_outlive_their_files(three: list[Any], run: Any, monkeypatch: Any) -> None:
    """A file that is removed during the run is missed only if its set is not cached."""
    from pathlib import Path

    from dovetail_tools._net_run import executor

    write = executor.JobRunner._write

    def then_remove(self: Any, slot: Any) -> None:
        write(self, slot)
        if slot.inference == 2:
            for i in range(3):
                Path(f"{i}.raw").rename(f"{i}.gone")

    monkeypatch.setattr(executor.JobRunner, "_write", then_remove)
    given = ("--model", "net.dvt", "--input-list", "list.txt", "--synchronous")
    done = run("net-run", *given, "--num-inferences", 6, "--max-input-cache-tensor-sets", -1)
    assert done.code == 0, done.err
    for path in Path().glob("*.gone"):
        path.rename(path.with_suffix(".raw"))
    done = run("net-run", *given, "--num-inferences", 6, "--max-input-cache-tensor-sets", 2)
    assert done.code == 3
    assert "2.raw" in done.err
