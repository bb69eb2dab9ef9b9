"""Profile logs: what is written, read again, appended, cut and refused; and Chrome traces."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from reference_backend import OPS, chain

from dovetail.container import Model, Producer
from dovetail.errors import BackendError, ContainerError, FrontendError
from dovetail.ir import Array
from dovetail.ops import CheckedGraph
from dovetail.runtime import (
    Backend,
    Counter,
    EventType,
    EventUnit,
    LogRecord,
    ProfiledCall,
    ProfileEvent,
    ProfileLevel,
    ProfileLog,
    chrome_trace,
    read_profile_log,
)
from dovetail.runtime.base import BackendBase, ContextBase, PreparedBase
from dovetail.runtime.contract import Capabilities, Prepared, PrepareRequest, RunControl

X = np.arange(6, dtype=np.float32).reshape(2, 3)
LINTING = 7001

NODE = ProfileEvent(
    EventType.NODE, "conv", 12.5, start_us=103.0, counters=(Counter("cycles", 900, 3),)
)
RUN = ProfileEvent(EventType.EXECUTE, "net", 20.0, children=(NODE,), start_us=100.0, backend="b")


class Measured(PreparedBase):
    def run(
        self, inputs: Mapping[str, Array], outputs: Mapping[str, Array], control: RunControl
    ) -> None:
        if control.record is not None:
            cycles = ProfileEvent(3003, "accelerator", 4_000, EventUnit.CYCLES)
            control.record(cycles)
            if control.record.level == LINTING:
                control.record(ProfileEvent(5001, "waiting", 7, EventUnit.CYCLES))
        outputs["y"][...] = 0


class MeasuringBackend(BackendBase):
    """Records its own events, at prepare and at run, and has a level of its own."""

    name: ClassVar[str] = "measuring"

    def capabilities(self) -> Capabilities:
        return Capabilities(profile_levels=(LINTING,))

    def prepare(
        self, graph: CheckedGraph, request: PrepareRequest, context: ContextBase
    ) -> Prepared:
        if request.record is not None:
            request.record(ProfileEvent(EventType.BACKEND, "arena", 4096, EventUnit.BYTES))
        return Measured()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "net.log"
    with ProfileLog(path) as writer:
        writer.write(RUN)
    return path


def model() -> Model:
    return Model.of(chain("Scale", "Scale"), producer=Producer("test", "1"), registry=OPS)


# -- events ----------------------------------------------------------------------------------------


def test_a_backend_records_events_of_its_own() -> None:
    with Backend.create(MeasuringBackend, ops=OPS) as backend:
        context = backend.create_context()
        profile = backend.create_profile()
        (graph,) = context.compose(model())
        graph.finalize(profile)
        graph.execute({"x": X}, profile=profile)
        finalized, run = profile.get_events()
        (arena,) = finalized.children
        assert (arena.identifier, arena.value, arena.unit) == ("arena", 4096, EventUnit.BYTES)
        assert (run.backend, run.queue) == ("measuring", "")
        assert finalized.start_us is not None
        assert run.start_us is not None
        assert finalized.start_us + finalized.value <= run.start_us
        data = profile.get_event_data((1, 0))
        assert (data.type, data.unit, data.value) == (3003, EventUnit.CYCLES, 4_000)
        extended = profile.get_extended_event_data((1,))
        assert (extended.timestamp, extended.value) == (round(run.start_us), run.value)


def test_a_backend_has_levels_of_its_own() -> None:
    with Backend.create(MeasuringBackend, ops=OPS) as backend:
        (graph,) = backend.create_context().compose(model())
        graph.finalize()
        profile = backend.create_profile(LINTING)
        graph.execute({"x": X}, profile=profile)
        (event,) = profile.events
        assert [part.type for part in event.children] == [3003, 5001]
        for level in (0, ProfileLevel.BACKEND, 7002):
            with pytest.raises(BackendError, match="profiling level") as caught:
                backend.create_profile(level)
            assert caught.value.code == "PROFILE_ERROR_UNSUPPORTED"


@pytest.mark.parametrize("path", [(), (1,), (0, 2), (-1,), (0, 0, 0)])
def test_an_event_that_does_not_exist(path: tuple[int, ...]) -> None:
    with Backend.create(MeasuringBackend, ops=OPS) as backend:
        profile = backend.create_profile()
        profile.add(ProfileEvent(400, "net", 1.0, children=(NODE, RUN)))
        assert profile.get_event_data((0, 1)).identifier == "net"
        broken = path if path != (0, 0, 0) else (0, 0, 1)  # a counter is an event, the only one
        with pytest.raises(BackendError, match="not found") as caught:
            profile.get_event_data(broken)
        assert caught.value.code == "PROFILE_ERROR_INVALID_ARGUMENT"


def test_counters_are_sub_events() -> None:
    (cycles,) = NODE.sub_events
    assert cycles == ProfileEvent(EventType.NODE, "conv (cycles)", 900, EventUnit.CYCLES)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_measurement_that_is_no_number_is_the_backends_error(value: float) -> None:
    class Broken(MeasuringBackend):
        def prepare(self, graph: Any, request: Any, context: Any) -> Prepared:
            request.record(ProfileEvent(400, "a", 1.0, children=(ProfileEvent(404, "b", value),)))
            return Measured()

    with Backend.create(Broken, ops=OPS) as backend:
        (graph,) = backend.create_context().compose(model())
        with pytest.raises(BackendError, match=f"the value of 'b' is {value}"):
            graph.finalize(backend.create_profile())


# -- the log ---------------------------------------------------------------------------------------


def test_what_is_written_is_read(log: Path) -> None:
    (section,) = read_profile_log(log)
    assert section.records == (LogRecord(ProfiledCall.BACKEND_EXECUTE, "net", RUN),)
    assert (section.header.format, section.header.version) == ("dovetail-profile", 1)
    assert not section.is_cut
    first, second = map(json.loads, log.read_text().splitlines())
    assert first["producer"].startswith("dovetail-core ")
    assert second["event"]["children"][0]["counters"] == [
        {"name": "cycles", "value": 900.0, "unit": 3}
    ]


def test_a_log_grows_by_each_process(log: Path) -> None:
    with ProfileLog(log) as writer:
        queued = ProfileEvent(EventType.EXECUTE, "other", 1.0, queue="q")
        writer.write(queued)
        writer.write(NODE, call=ProfiledCall.APP_EXECUTE_IPS, graph="other")
    first, second = read_profile_log(log)
    assert len(first.records) == 1
    assert [(r.call, r.graph) for r in second.records] == [(3, "other"), (8, "other")]


@pytest.mark.parametrize(
    ("limit", "identifiers"),
    [
        (1, ["net"]),
        (2, ["net", "a"]),
        (4, ["net", "a", "b", "net"]),  # parts are kept in order, however deep
        (7, ["net", "a", "b", "net", "a", "b"]),
        (None, ["net", "a", "b", "net", "a", "b"]),
    ],
)
def test_a_log_has_a_limited_number_of_events(
    tmp_path: Path, limit: int | None, identifiers: list[str]
) -> None:
    inner = ProfileEvent(EventType.NODE, "a", 1, children=(ProfileEvent(EventType.NODE, "b", 1),))
    run = ProfileEvent(EventType.EXECUTE, "net", 2.0, children=(inner,))
    with ProfileLog(tmp_path / "net.log", limit) as writer:
        writer.write(run)
        writer.write(NODE, call=ProfiledCall.APP_EXECUTE_IPS, graph="net")  # does not count
        writer.write(run)
        writer.write(run, graph="other")  # has a limit of its own
    (section,) = read_profile_log(tmp_path / "net.log")
    own = [r.event for r in section.records if r.graph == "net" and r.call == 1]
    assert [name for event in own for name in _identifiers(event)] == identifiers
    assert [r.call for r in section.records].count(ProfiledCall.APP_EXECUTE_IPS) == 1
    assert section.records[-1].graph == "other"


def _identifiers(event: ProfileEvent) -> list[str]:
    return [event.identifier, *(name for part in event.children for name in _identifiers(part))]


@pytest.mark.parametrize("dropped", [1, 40, 120])
def test_a_cut_log_is_read_and_continued(log: Path, dropped: int) -> None:
    log.write_bytes(log.read_bytes()[:-dropped])
    (section,) = read_profile_log(log)
    assert section.is_cut is (dropped > 1)  # without its newline the line is complete
    with ProfileLog(log) as writer:
        writer.write(RUN)
    first, second = read_profile_log(log)
    assert (first.is_cut, len(first.records)) == (dropped > 1, int(dropped == 1))
    assert (second.is_cut, len(second.records)) == (False, 1)


@pytest.mark.parametrize("size", [0, 1, 20, 60])
def test_a_log_with_a_cut_header_is_empty(log: Path, size: int) -> None:
    log.write_bytes(log.read_bytes()[:size])
    assert read_profile_log(log) == ()
    with ProfileLog(log) as writer:
        writer.write(RUN)
    (section,) = read_profile_log(log)
    assert len(section.records) == 1


RECORD = '{"call":1,"graph":"g","event":{"type":400,"identifier":"g","value":%s}}'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{}", "missing required field `call`"),
        ("[1]", "Expected `object`"),
        ("\x00\xff", "malformed"),
        (RECORD % '"long"', r"Expected `float`, got `str` - at `\$.event.value`"),
        (RECORD % "1e999", "value"),
        (RECORD % "null", "Expected `float`"),
        (RECORD % ('1,"children":[' + '{"children":[' * 100_000), "nested|recursion"),
    ],
)
def test_an_invalid_line_is_named(log: Path, line: str, message: str) -> None:
    with log.open("ab") as file:
        file.write(line.encode("latin-1") + b"\n")
    with pytest.raises(ContainerError, match=message) as caught:
        read_profile_log(log)
    assert caught.value.code == "PROFILE_LOG_INVALID"
    assert caught.value.where == f"{log}:3"


def test_a_line_in_the_middle_is_not_taken_for_a_cut_one(log: Path) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(lines[0] + lines[1][:-20] + b"\n" + lines[1])
    with pytest.raises(ContainerError, match="invalid line"):
        read_profile_log(log)


def test_a_newer_log_is_refused(log: Path) -> None:
    log.write_bytes(log.read_bytes().replace(b'"version":1', b'"version":2'))
    with pytest.raises(ContainerError, match="version 2; this version reads up to 1") as caught:
        read_profile_log(log)
    assert caught.value.exit_code == 5


@pytest.mark.parametrize("content", [b"PK\x03\x04", b'{"format":"other"}\n', b"\n"])
def test_another_file_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    for action in (read_profile_log, ProfileLog):
        with pytest.raises(ContainerError, match="not a profile log"):
            action(path)
    assert path.read_bytes() == content
    with pytest.raises(FrontendError):
        read_profile_log(tmp_path / "missing")
    with pytest.raises(ContainerError):
        ProfileLog(tmp_path)


# -- Chrome traces ---------------------------------------------------------------------------------


def test_a_chrome_trace(log: Path) -> None:
    with ProfileLog(log) as writer:
        wait = ProfileEvent(EventType.EXECUTE_QUEUE_WAIT, "net", 5.0, start_us=195.0)
        writer.write(
            ProfileEvent(400, "net", 30.0, children=(wait,), start_us=200.0, backend="b", queue="q")
        )
        read = ProfileEvent(406, "read", 2.0, start_us=90.0)
        writer.write(read, call=ProfiledCall.APP_EXECUTE_IPS, graph="net")
    sections = read_profile_log(log)
    trace = chrome_trace(sections)
    json.dumps(trace)
    events = trace["traceEvents"]
    names = {(e["pid"], e.get("tid")): e["args"]["name"] for e in events if e["ph"] == "M"}
    slices = [e for e in events if e["ph"] == "X"]
    assert [(e["name"], e["cat"], e["dur"]) for e in slices] == [
        ("net", "execute", 20.0),
        ("conv", "node", 12.5),
        ("net", "execute", 30.0),
        ("read", "execute_preprocess", 2.0),
    ]
    assert [names[e["pid"], None] for e in slices] == ["b", "b", "b", "application"]
    assert [names[e["pid"], e["tid"]] for e in slices] == ["calls", "calls", "q", "calls"]
    assert slices[1]["ts"] - slices[0]["ts"] == pytest.approx(3.0)
    assert min(e["ts"] for e in slices) == 0
    assert slices[1]["args"] == {"cycles (cycles)": 900}
    assert slices[2]["args"] == {"execute_queue_wait (microsec)": 5.0}


def test_the_trace_of_an_empty_log_is_empty() -> None:
    assert chrome_trace(()) == {"displayTimeUnit": "ms", "traceEvents": []}
