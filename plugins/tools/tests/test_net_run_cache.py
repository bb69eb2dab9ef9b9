"""`net-run --cache`: prepared graphs that a folder keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dovetail import runtime
from dovetail.adapters import write_safetensors
from dovetail.ir import TensorKind

X = np.array([1, 2, 3], "f4")


@pytest.fixture
def model(new_net: Any, raw: Any, listing: Any) -> str:
    """y = x * w with w of ones, that an adapter updates to 4; its list is `list.txt`."""
    net = new_net("net")
    w = net.static("w", np.ones(3, "f4"))
    w.kind = TensorKind.UPDATEABLE_STATIC
    path: str = net.save(net.node("ElementWiseMultiply", net.input("x", 3), w, name="y"))
    write_safetensors(Path("four.safetensors"), {"w": np.full(3, 4, "f4")})
    raw("a.raw", X)
    listing("a.raw")
    return path


def test_a_second_run_prepares_nothing(
    model: str, run: Any, result: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ("net-run", "--model", model, "--input-list", "list.txt", "--cache", "kept")
    assert run(*given).code == 0
    np.testing.assert_array_equal(result("y.raw"), X)
    assert len(list(Path("kept").glob("*.bin"))) == 1
    with monkeypatch.context() as patch:
        patch.setattr(runtime.Graph, "finalize", None)
        assert run(*given, "--output-dir", "again").code == 0
    np.testing.assert_array_equal(result("y.raw", folder="again"), X)
    assert run(*given, "--adapter", "four.safetensors").code == 0
    np.testing.assert_array_equal(result("y.raw"), 4 * X)


def test_without_a_folder_the_cache_is_the_users(
    model: str, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOVETAIL_CACHE", "mine")
    assert run("net-run", "--cache", "--model", model, "--input-list", "list.txt").code == 0
    assert len(run("--json", "cache", "list").data["contexts"]) == 1


@pytest.mark.parametrize(
    "other",
    [["--debug"], ["--set-output-tensors", "net:y"], ["--op-packages", "a"]],
)
def test_options_that_change_the_prepared_graphs(model: str, run: Any, other: list[str]) -> None:
    done = run("net-run", "--model", model, "--input-list", "list.txt", "--cache", "c", *other)
    assert done.code == 2
    assert f"--cache and {other[0]} are mutually exclusive" in done.err
    assert not Path("c").exists()
