"""Decisions of `auto` in the user's cache folder: hits, stale ones, damaged ones."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from racing_backends import RUNS
from reference_backend import PACKAGE, chain

from dovetail.errors import BackendError
from dovetail.ir import DType, Scalar
from dovetail.ops import EVERYTHING, OpRegistry
from dovetail.runtime import Backend
from dovetail.runtime.choice import decisions
from dovetail.testing.bench import compose

OPS = OpRegistry.of(PACKAGE)
FAST, SLOW = {"delay_ms": 0.5}, {"delay_ms": 4}
OPTIONS = {"members": {"first": SLOW, "second": FAST}, "trial_seconds": 0.03}


@pytest.fixture(autouse=True)
def folder(site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two backends, and a cache folder of the test."""
    names = {n: f"racing_backends:{n.title()}Backend" for n in ("first", "second")}
    site.dist("racing-dist", {"dovetail.backends": names})
    monkeypatch.setenv("DOVETAIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("reference_backend.Scale.work", lambda *_: 6)
    RUNS.clear()
    return tmp_path / "cache" / "auto"


def choice(*ops: str, first: Any = SLOW, name: str = "auto:first,second", **more: Any) -> Any:
    """Return the choice for a chain, and check that only a cached one took no trial."""
    given = OPTIONS | {"members": {"first": first, "second": FAST}} | more
    RUNS.clear()
    with Backend.create(name, given, OPS) as backend:
        graph = compose(backend.create_context(), chain(*(ops or ("Scale",))))
        graph.finalize()
        assert graph.placement is not None
        found = graph.placement.choice
    assert found is not None
    assert bool(RUNS) is not found.cached
    return found


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*")) if folder.exists() else []


def test_the_second_time_there_is_no_trial(folder: Path) -> None:
    first, second = choice(), choice()
    assert (first.cached, second.cached) == (False, True)
    assert first.candidates == second.candidates
    assert next(second.lines()) == (
        "auto: second, the fastest of 2 measured (decided before on this machine)"
    )
    assert len(files(folder)) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"first": {"delay_ms": 3}},  # its fingerprint
        {"precision": "float16"},
        {"trial_seconds": 0.04},
        {"name": "auto:second,first"},
    ],
)
def test_other_facts_are_another_decision(folder: Path, changed: Any) -> None:
    choice()
    assert not choice(**changed).cached
    assert len(files(folder)) == 2


def test_another_graph_another_machine_other_observed_tensors(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice("Scale")
    assert not choice("Scale", "Scale").cached
    with Backend.create("auto:first,second", OPTIONS, OPS) as backend:
        graph = compose(backend.create_context(), chain("Scale"))
        graph.finalize(observed=EVERYTHING)
        assert not graph.placement.choice.cached  # type: ignore[union-attr]
    monkeypatch.setattr(decisions, "machine_facts", lambda: {"processor": "other"})
    assert not choice("Scale").cached
    assert len(files(folder)) == 4


def test_params_matter() -> None:
    def of(factor: float) -> Any:
        with Backend.create("auto:first,second", OPTIONS, OPS) as backend:
            net = chain("Scale")
            net.nodes[0].params["factor"] = Scalar(DType.FLOAT_32, factor)
            graph = compose(backend.create_context(), net)
            graph.finalize()
            return graph.placement.choice  # type: ignore[union-attr]

    assert not of(2.0).cached
    assert of(2.0).cached
    assert not of(3.0).cached


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[" * 60_000,
        b"\xff\xfe",
        b'{"format": 1}',
        b'{"format": 99, "ms": {"first": 1.0, "second": 2.0}, "stopped": []}',
        b'{"format": 1, "ms": {"first": "1", "second": 2.0}, "stopped": []}',
        b'{"format": 1, "ms": {"first": 0.0, "second": 2.0}, "stopped": []}',
        b'{"format": 1, "ms": {"first": -1.0, "second": 2.0}, "stopped": []}',
        b'{"format": 1, "ms": {"first": 1e999, "second": 2.0}, "stopped": []}',
        b" " * (1 << 17),
    ],
)
def test_a_damaged_file_is_ignored_with_a_warning(
    folder: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    choice()
    (file,) = files(folder)
    file.write_bytes(content)
    assert not choice().cached
    assert f"{file} is ignored" in caplog.text
    assert choice().cached  # written again


@pytest.mark.parametrize(
    "names", [["first"], ["first", "second", "third"], ["../../else", "second"], []]
)
def test_times_of_other_candidates_are_stale(folder: Path, names: list[str]) -> None:
    choice()
    (file,) = files(folder)
    data = {"format": 1, "ms": dict.fromkeys(names, 1.0), "stopped": []}
    file.write_bytes(msgspec.json.encode(data))
    found = choice()
    assert (found.backend, found.cached) == ("second", False)


def test_a_trial_serves_every_power_preference() -> None:
    assert choice(first={**SLOW, "efficiency": 0.9}).backend == "second"
    saving = choice(first={**SLOW, "efficiency": 0.9}, power="saving")
    assert saving.cached


@pytest.mark.parametrize(
    ("power", "ms", "chosen"),
    [
        ("performance", 11, "first"),
        ("balanced", 11, "second"),
        ("balanced", 25, "first"),
        ("saving", 25, "second"),
        ("saving", 90, "first"),
    ],
)
def test_power_decides_between_measured_times(
    folder: Path, power: str, ms: float, chosen: str
) -> None:
    """The times are those of the file: measured ones would depend on the load of the machine."""
    members = {"first": SLOW, "second": {**FAST, "efficiency": 0.9}}
    choice(members=members)
    (file,) = files(folder)
    data = msgspec.json.decode(file.read_bytes())
    file.write_bytes(msgspec.json.encode(data | {"ms": {"first": 10.0, "second": float(ms)}}))
    found = choice(members=members, power=power)
    assert (found.backend, found.cached) == (chosen, True)
    assert [each.ms for each in found.candidates] == [10.0, ms]
    if power != "performance":
        assert found.reason.startswith("the most power-efficient within")


def test_a_folder_in_the_file_s_location(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    choice()
    (file,) = files(folder)
    file.unlink()
    file.mkdir()
    assert choice().backend == "second"
    assert "is ignored" in caplog.text
    assert "the decision is not kept" in caplog.text


def test_a_pipe_in_the_file_s_location_is_not_waited_for(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    choice()
    (file,) = files(folder)
    file.unlink()
    os.mkfifo(file)
    assert choice().backend == "second"
    assert f"{file} is ignored" in caplog.text
    assert file.is_fifo()


def test_a_decision_that_fails_now_is_decided_again(monkeypatch: pytest.MonkeyPatch) -> None:
    choice()

    def prepare(*_: Any) -> Any:
        raise OSError("out of device memory")

    monkeypatch.setattr("racing_backends.SecondBackend.prepare", prepare)
    with Backend.create("auto:first,second", OPTIONS, OPS) as backend:
        graph = compose(backend.create_context(), chain("Scale"))
        graph.finalize()
        again = graph.placement.choice  # type: ignore[union-attr]
        assert again is not None
        assert again.backend == "first"
        assert [each.backend for each in again.candidates if each.excluded] == ["second"]
    monkeypatch.setattr("racing_backends.FirstBackend.prepare", prepare)
    with pytest.raises(BackendError, match="no candidate can run the graph"):
        choice()


def test_without_a_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not choice(cache=False).cached
    assert not choice(cache=False).cached
    assert files(folder) == []
    monkeypatch.setenv("DOVETAIL_CACHE", "")
    assert not choice().cached
    assert not choice().cached


def test_nothing_that_was_not_measured_is_kept(folder: Path) -> None:
    given = {"members": {"first": {"fail": True}, "second": FAST}}
    with Backend.create("auto:first,second", given, OPS) as backend:
        compose(backend.create_context(), chain("Scale")).finalize()
    assert files(folder) == []


def test_a_folder_that_cannot_be_written_costs_only_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DOVETAIL_CACHE", str(tmp_path / "file"))
    assert not choice().cached
    assert not choice().cached


def test_a_trial_in_which_a_candidate_failed_is_not_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"members": {"first": SLOW, "second": {**FAST, "fails_to_run": True}}}
    with Backend.create("auto:first,second", OPTIONS | given, OPS) as backend:
        compose(backend.create_context(), chain("Scale")).finalize()
    assert RUNS
    assert files(folder) == []  # the device may be there again the next time


def test_a_trial_in_which_a_candidate_was_stopped_is_kept(folder: Path) -> None:
    first = choice(first={"delay_ms": 60_000})
    again = choice(first={"delay_ms": 60_000})
    assert (first.cached, again.cached) == (False, True)
    assert again.candidates[0].excluded == "much slower in the trial"


def test_old_decisions_are_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "_MAX_FILES", 2)
    folder.mkdir(parents=True)
    for i in range(3):
        old = folder / f"{i}.json"
        old.write_text("{}")
        os.utime(old, (time.time() - 100 + i,) * 2)
    choice()
    names = {file.name for file in files(folder)}
    assert len(names) == 2
    assert "2.json" in names
