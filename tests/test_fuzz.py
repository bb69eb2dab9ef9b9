"""The fuzzing driver: it finds what it is to find, repeats it, and finds nothing in ours."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path

import fuzz_files
import pytest
from fuzz import workers
from fuzz.containers import mutate_container
from fuzz.extremes import extreme_seeds, mutate_extreme
from fuzz.mutation import mutate_onnx
from fuzz.seeds import container_seeds, own_seeds
from onnx import ModelProto

from dovetail.errors import FrontendError, GraphError

# `make fuzz` reads 20,000.
COUNT = 150


@pytest.fixture(autouse=True)
def logs() -> Iterator[None]:
    """The driver disables them."""
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("target", fuzz_files.TARGETS)
def test_mutated_files_are_read_or_refused(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    status = fuzz_files.main(["--target", target, "--count", str(COUNT), "--details"])
    told = capsys.readouterr().out
    assert status == 0, told
    assert f"mutations        {COUNT}" in told
    assert "findings         0" in told


def test_one_file_can_be_had_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = mutate_container(container_seeds(), 3, 17)
    arguments = ["--target", "dvt", "--seed", "3", "--only", "17", "--save", str(tmp_path)]
    assert fuzz_files.main(arguments) == 0
    assert wanted.origin in capsys.readouterr().out
    assert (tmp_path / "3-17.dvt").read_bytes() == wanted.data


def test_the_sweep_sets_one_number_in_every_copy_of_a_node() -> None:
    seeds = extreme_seeds()
    numbers = [n for n, seed in enumerate(seeds) if seed.name == "test_depthtospace_example"]
    before, *after = (ModelProto.FromString(mutate_extreme(seeds, 1, n).data) for n in numbers)
    assert len({name for node in before.graph.node for name in node.output}) == 4
    sizes = [
        {a.i for n in m.graph.node for a in n.attribute if a.name == "blocksize"} for m in after
    ]
    assert {2**40} in sizes
    assert {-(2**63)} in sizes
    assert all(len(values) == 1 for values in sizes)
    extents = {d.dim_value for m in after for d in m.graph.input[0].type.tensor_type.shape.dim}
    assert 10**9 in extents


def test_numbers_and_seeds_give_other_files() -> None:
    for seeds, mutate in ((own_seeds(), mutate_onnx), (container_seeds(), mutate_container)):
        made = [mutate(seeds, seed, n).data for seed in (1, 2) for n in range(20)]
        assert made == [mutate(seeds, seed, n).data for seed in (1, 2) for n in range(20)]
        assert len(set(made)) > 30


def misbehave(path: Path) -> None:
    """What a bad reader does with a file that says so."""
    match path.read_text():
        case "crash":
            os.abort()
        case "hang":
            time.sleep(60)
        case "allocate":
            bytearray(2 << 30)
        case "hide":
            try:
                bytearray(2 << 30)
            except MemoryError as error:
                raise FrontendError("it is too large") from error
        case "raise":
            raise IndexError("out of range")
        case "blame":
            raise GraphError("there are faults")
        case "refuse":
            raise FrontendError("it is wrong")


def test_what_must_not_be_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "LIMIT_S", 1.0)
    words = ["refuse", "crash", "hang", "allocate", "hide", "raise", "blame", "good", "crash"]
    found = dict(
        workers.try_all(range(len(words)), lambda n: words[n].encode(), misbehave, ".txt", jobs=1)
    )
    verdicts = {n: outcome.verdict for n, outcome in found.items()}
    assert [verdicts[n].partition(" at ")[0] for n in range(len(words))] == [
        "MODEL_INVALID",
        "died: SIGABRT",
        "hangs: no outcome in 1 s",
        "MemoryError",
        "MemoryError",
        "IndexError",
        "GraphError",
        "succeeded",
        "died: SIGABRT",
    ]
    assert [n for n, outcome in found.items() if not outcome.is_finding] == [0, 7]
