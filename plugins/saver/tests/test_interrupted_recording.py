"""An interrupt (Ctrl-C) while a call is recorded neither damages nor ends the recording."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from recorded import Program, relu_graph

import dovetail as dt
from dovetail.runtime import Backend
from dovetail.runtime.calls import differences
from dovetail_saver.replay import replay
from dovetail_saver.trace import Trace
from dovetail_saver.verifying import verify

# The interpreter runs signal handlers at calls, entries of functions and jumps backwards, so not
# inside of these functions, which do nothing but set attributes around their calls.
_GUARDED = ("_locked", "_make_all")
_RECORDER = ("runtime/calls/", "dovetail_saver/tape.py", "dovetail_saver/trace/")
EXECUTES = 2


@contextmanager
def interrupted_at(count: int) -> Iterator[Callable[[], bool]]:
    """Raise a KeyboardInterrupt at a line of the recorder, counted from 0.

    Yields whether it was raised.
    """
    left, raised = count, False

    def local(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left, raised
        if event == "line" and frame.f_code.co_name not in _GUARDED and not raised:
            if not left:
                raised = True
                raise KeyboardInterrupt
            left -= 1
        return local

    def enter(frame: FrameType, event: str, _: Any) -> Any:
        if raised or not any(part in frame.f_code.co_filename for part in _RECORDER):
            return None
        return local

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield lambda: raised
    finally:
        sys.settrace(before)


def interrupted_session(folder: Path, at: int) -> bool:
    """Record executions, with an interrupt at a line of the recorder; return if there was one."""
    with dt.record(folder), Backend.create("cpu") as backend:
        graph = relu_graph(backend)
        with interrupted_at(at) as is_raised:
            for i in range(EXECUTES):
                try:
                    graph.execute({"x": np.full((2, 3), i, np.float32)})
                except KeyboardInterrupt:
                    assert is_raised()
        return is_raised()


def test_an_interrupt_at_any_line(tmp_path: Path) -> None:
    at = 0
    while interrupted_session(tmp_path / str(at), at):
        trace = Trace(tmp_path / str(at))
        found = [differences(played) for played in replay(trace)]
        assert found == [()] * len(found)
        assert len({entry.record.number for entry in trace}) == len(found)  # each once
        assert verify(trace.folder) == len(found)
        assert trace.mark is not None
        assert trace.mark.reason == ""
        assert len(found) >= 9 + EXECUTES - 1  # less a call that the interrupt has prevented
        at += 1
    assert at > 100  # lines of the recorder in the calls


def test_an_interrupt_is_raised_in_the_program(program: Program, tmp_path: Path) -> None:
    text = """
import signal
import dovetail_saver.trace.payloads as payloads

write = payloads.os.write

def interrupted(file, data):
    payloads.os.write = write
    signal.raise_signal(signal.SIGINT)
    return write(file, data)

signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored in the background
payloads.os.write = interrupted
try:
    session()
except KeyboardInterrupt:
    print("interrupted")
session()
"""
    done = program(text, DOVETAIL_RECORD="trace")
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")
    trace = Trace(tmp_path / "trace")
    found = [differences(played) for played in replay(trace)]
    assert found == [()] * len(found)
    assert trace.mark is not None
    assert trace.mark.reason == ""


@pytest.mark.parametrize("interrupts", [1, 5])
def test_several_interrupts_of_one_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupts: int
) -> None:
    from dovetail_saver.trace.lines_file import LinesFile

    append, left = LinesFile.append, interrupts

    def interrupted(*args: Any, **options: Any) -> None:
        nonlocal left
        append(*args, **options)
        if left:
            left -= 1
            raise KeyboardInterrupt

    with dt.record(tmp_path / "trace", payloads="none"), Backend.create("cpu") as backend:
        graph = relu_graph(backend)
        monkeypatch.setattr(LinesFile, "append", interrupted)
        for _ in range(interrupts):
            with pytest.raises(KeyboardInterrupt):
                graph.execute({"x": np.zeros((2, 3), np.float32)})
        graph.execute({"x": np.zeros((2, 3), np.float32)})
    assert verify(tmp_path / "trace") == len(list(Trace(tmp_path / "trace"))) == 10 + interrupts
