"""Forked commands are as good as started ones: their own end, output, folder and state."""

from __future__ import annotations

from pathlib import Path

import forked
import pytest


@pytest.mark.parametrize(
    ("code", "status", "told"),
    [
        ("pass", 0, ""),
        ("raise SystemExit", 0, ""),
        ("raise SystemExit(3)", 3, ""),
        ("raise SystemExit('no more')", 1, "no more\n"),
        ("import os; os._exit(4)", 4, ""),
        ("import os; os.kill(os.getpid(), 9)", -9, ""),
        ("1 / 0", 1, "ZeroDivisionError: division by zero\n"),
        ("import warnings; warnings.warn('careful')", 1, "UserWarning: careful\n"),
    ],
)
def test_a_program_ends_as_it_says(code: str, status: int, told: str, tmp_path: Path) -> None:
    done = forked.run(["python", "-c", code], tmp_path)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.endswith(told)
    assert bool(done.stderr) == bool(told)


def test_a_command_has_folder_variables_and_path_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "own_module.py").write_text("import os\nprint(os.getcwd(), os.environ['OWN'])\n")
    folder = tmp_path / "folder"
    folder.mkdir()
    done = forked.run(["python", "-m", "own_module"], folder, path=[tmp_path], OWN="x")
    assert done.stdout == f"{folder} x\n", done.stderr
    assert forked.run(["python", "-m", "own_module"], folder, OWN="x").returncode == 1


def test_a_command_leaves_nothing_to_the_next(tmp_path: Path) -> None:
    code = "import dovetail, sys; print(hasattr(dovetail, 'mark'), sys.argv); dovetail.mark = 1"
    for _ in range(2):
        done = forked.run(["python", "-c", code, "a"], tmp_path)
        assert done.stdout == "False ['-c', 'a']\n", done.stderr


def test_what_ends_late_is_waited_for(tmp_path: Path) -> None:
    code = (
        "import atexit, threading, time\n"
        "atexit.register(print, 'second')\n"
        "threading.Thread(target=lambda: (time.sleep(0.05), print('first'))).start()"
    )
    assert forked.run(["python", "-c", code], tmp_path).stdout == "first\nsecond\n"


def test_commands_are_dovetail_and_pytest(tmp_path: Path) -> None:
    assert forked.run("dovetail explain 'no such code'", tmp_path).returncode == 2
    (tmp_path / "test_one.py").write_text("def test():\n    assert 1 == 2\n")
    done = forked.run("pytest -q -p no:cacheprovider test_one.py", tmp_path)
    assert done.returncode == 1
    assert "assert 1 == 2" in done.stdout
