"""`dovetail record`, and `DOVETAIL_RECORD` for any program."""

import sys
from pathlib import Path

import pytest
from recorded import SESSION_CALLS, Program

from dovetail.runtime.calls import CallRecord
from dovetail_saver.trace import Trace

RECORD = (sys.executable, "-m", "dovetail", "record", "--out", "trace", "--")


def names(folder: Path) -> list[str]:
    records = [entry.record for entry in Trace(folder)]
    return [r.function for r in records if isinstance(r, CallRecord)]


def test_a_script_is_recorded_and_its_exit_code_returned(program: Program, tmp_path: Path) -> None:
    done = program("session()\nprint('mine')\nraise SystemExit(7)", command=RECORD)
    assert (done.returncode, done.stdout) == (7, "mine\n")
    size = sum(file.stat().st_size for file in (tmp_path / "trace").iterdir())
    assert done.stderr == f"record: {SESSION_CALLS} calls, {size:,} bytes in trace\n"
    assert names(tmp_path / "trace")[0] == "backend_create"
    assert names(tmp_path / "trace")[-1] == "backend_free"


def test_a_command_that_makes_no_call(program: Program, tmp_path: Path) -> None:
    done = program("", command=(*RECORD, "plugins", "--json"))
    assert done.returncode == 2  # of `dovetail plugins program.py`
    assert "no API calls were made" in done.stderr
    assert not (tmp_path / "trace").exists()


def test_a_program_that_does_not_exist(program: Program, tmp_path: Path) -> None:
    done = program("", command=(*RECORD, "covnert"))
    assert done.returncode == 2
    assert "program 'covnert' not found" in done.stderr
    assert "did you mean 'convert'" in done.stderr


def test_options_after_the_program_are_its_own(program: Program, tmp_path: Path) -> None:
    without_dashes = (*RECORD[:-1], "plugins", "--out")
    assert "No such option: --out" in program("", command=without_dashes).stderr
    unknown = (*RECORD[:-3], "--output-dir", "trace", "--", "plugins")
    done = program("", command=unknown)
    assert done.returncode == 2
    assert "No such option: --output-dir" in done.stderr


def test_a_used_folder_is_refused_before_the_program_starts(
    program: Program, tmp_path: Path
) -> None:
    (tmp_path / "trace").mkdir()
    (tmp_path / "trace" / "file").write_text("mine")
    done = program("print('started')", command=RECORD)
    assert (done.returncode, done.stdout) == (2, "")
    assert "new or empty" in done.stderr


def test_an_unwritable_folder_is_refused_before_the_program_starts(
    program: Program, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("mine")
    done = program(
        "print('started')", command=[("file/trace" if each == "trace" else each) for each in RECORD]
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert "file/trace: cannot be written: Not a directory" in done.stderr


@pytest.mark.parametrize(
    "broken", ["os.posix_fallocate", "writer.PayloadWriter", "writer.atomic_write"]
)
def test_a_disk_that_is_full_from_the_start(program: Program, tmp_path: Path, broken: str) -> None:
    text = f"""
import errno, os
import dovetail_saver.trace.writer as writer

def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

{broken} = full
session()
raise SystemExit(7)
"""
    done = program(text, command=RECORD)
    assert done.returncode == 7
    assert done.stderr.count("No space left on device") == 1
    assert "trace has no trace" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["program.py"]


def test_every_process_has_its_own_trace(program: Program, tmp_path: Path) -> None:
    text = """
import os, subprocess, sys
session()
if len(sys.argv) == 1:
    child = os.fork()
    if not child:
        session(3)
        os._exit(0)
    os.waitpid(child, 0)
    started = subprocess.Popen([sys.executable, __file__, "child"])
    started.wait()
    print(child, started.pid)
"""
    done = program(text, DOVETAIL_RECORD="trace")
    assert done.returncode == 0, done.stderr
    forked, started = (tmp_path / "trace" / f"process-{pid}" for pid in done.stdout.split())
    counts = {folder: Trace(folder).count() for folder in (tmp_path / "trace", forked, started)}
    assert list(counts.values()) == [SESSION_CALLS, SESSION_CALLS + 2, SESSION_CALLS]
    for folder in counts:
        assert names(folder)[0] == "backend_create"
        assert names(folder)[-1] == "backend_free"


def test_a_second_run_does_not_touch_the_first(program: Program, tmp_path: Path) -> None:
    for _ in range(2):
        assert program("session()", DOVETAIL_RECORD="trace").returncode == 0
    (second,) = (tmp_path / "trace").glob("process-*")
    assert Trace(tmp_path / "trace").count() == Trace(second).count() == SESSION_CALLS


def test_a_process_that_is_not_recorded_has_no_hooks(program: Program) -> None:
    done = program(
        "session()\nimport sys\nfrom dovetail.plugins.hooks import hooks\n"
        "print(hooks.active, 'pluggy' in sys.modules, 'dovetail_saver.recording' in sys.modules)"
    )
    assert (done.stdout, done.stderr) == ("False False False\n", "")


def test_impossible_settings_are_reported_and_the_program_goes_on(
    program: Program, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("mine")
    for folder, policy, reason in (
        ("trace", "some", "unknown payloads 'some'"),
        (".", "all", "new or empty"),
        ("file/trace", "all", "Not a directory"),
    ):
        done = program(
            "session()\nprint('done')", DOVETAIL_RECORD=folder, DOVETAIL_RECORD_PAYLOADS=policy
        )
        assert (done.returncode, done.stdout) == (0, "done\n")
        assert done.stderr.count(reason) == 1
        assert done.stderr.count("dovetail.hooks") + done.stderr.count("hook plugin") == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "program.py"]
