"""Commands in processes of their own, forked from an interpreter that imported what they need.

A command line spends most of its time on imports. `run` asks one interpreter, which has done them
and nothing else, for a copy of itself: the command has its own working folder, environment,
output and end, and leaves nothing to the next. Whoever tests start-up or the search for modules
starts a real one. A warning is an error here, in every command.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib.metadata
import importlib.util
import json
import os
import pkgutil
import runpy
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

LIMIT_S = 120
# What commands import; what cannot be imported is left to whoever needs it.
FOREIGN = (
    *("numpy.random", "onnx.reference", "pydantic", "pydantic.main", "pydantic.type_adapter"),
    *("pytest", "rich.console", "rich.progress", "stevedore.driver", "stevedore.hook"),
    *("typer", "typer._adapters"),
)
# With all of their modules, but for one that pytest wants to import itself.
OURS = (
    *(
        "dovetail",
        "dovetail_cpu",
        "dovetail_htp",
        "dovetail_numpy",
        "dovetail_onednn",
        "dovetail_onnx",
        "dovetail_opset",
        "dovetail_qnn",
        "dovetail_qnn_names",
    ),
    *("dovetail_quantizers", "dovetail_tools"),
)
NOT_YET = ("dovetail.testing.plugin", "dovetail.testing.suite")
LEFT_OUT = ("DOVETAIL_PLUGINS", "PYTHONPATH", "PYTEST_")  # and what begins so


def run(
    command: str | Sequence[str], folder: Path, *, path: Iterable[Path] = (), **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command and return its exit status and what it printed.

    Args:
        command: `dovetail ...`, `pytest ...`, another program of an installed dist, or `python`
            with a file, `-m MODULE` or `-c CODE`; as a line or in words.
        folder: Where it runs.
        path: Folders to import from before all others, as PYTHONPATH has them.
        environment: Variables besides the test's own; PYTHONPATH and DOVETAIL_PLUGINS are gone.
    """
    words = shlex.split(command) if isinstance(command, str) else list(command)
    with tempfile.TemporaryDirectory() as name:
        files = [os.path.join(name, stream) for stream in ("stdout", "stderr")]
        variables = _clean_environment() | environment
        where = [str(folder), [str(p) for p in path], variables, files]
        status = _ask([words, *where])
        out, err = (Path(file).read_text("utf-8") for file in files)
    return subprocess.CompletedProcess(words, status, out, err)


def _clean_environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith(LEFT_OUT)}


@functools.cache
def _server() -> subprocess.Popen[str]:
    """The interpreter that is copied; it ends with the tests, when its input does."""
    command = [sys.executable, "-P", "-W", "error", __file__]
    server = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=_clean_environment(),
        text=True,
        start_new_session=True,  # an interrupt is the tests' affair
    )
    atexit.register(server.communicate)
    return server


def _ask(request: Any) -> int:
    server = _server()
    if server.stdin is None or server.stdout is None:
        raise AssertionError  # both are pipes
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()
    return int(server.stdout.readline())


def _serve() -> None:
    for name in (*FOREIGN, *_modules_of(OURS)):
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    # Other threads are those of a BLAS, which wait for work and take care of forks themselves.
    warnings.filterwarnings("ignore", ".*is multi-threaded", DeprecationWarning)
    gc.collect()
    gc.freeze()  # or the next collection of each copy would touch all of it
    with os.fdopen(os.dup(0)) as requests, os.fdopen(os.dup(1), "w") as answers:
        for line in requests:
            child = os.fork()
            if child == 0:
                os._exit(_status_of(*json.loads(line)))
            _, status = os.waitpid(child, 0)
            print(os.waitstatus_to_exitcode(status), file=answers, flush=True)


def _modules_of(packages: Iterable[str]) -> Iterator[str]:
    for package in packages:
        spec = importlib.util.find_spec(package)
        places = (spec.submodule_search_locations or []) if spec else []
        for found in pkgutil.walk_packages(places, f"{package}."):
            if not found.name.startswith(NOT_YET) and not found.name.endswith("__main__"):
                yield found.name


def _status_of(*request: Any) -> int:
    """Run what an interpreter would run, and return the status that it would end with.

    What is left out is the freeing of all objects: each page of them would be copied for it.
    """
    status = 0
    try:
        _become(*request)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:  # noqa: BLE001 - whatever it is
        traceback.print_exc()
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return status


def _become(
    words: list[str],
    folder: str,
    path: list[str],
    environment: Mapping[str, str],
    files: list[str],
) -> None:
    """Create this copy the process that was asked for."""
    signal.alarm(LIMIT_S)  # nobody waits longer: the signal ends it
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for descriptor, file in enumerate((os.devnull, *files)):
        flags = os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT
        opened = os.open(file, flags)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.path[:0] = path
    program, *rest = words
    if program == "dovetail":
        from dovetail.cli import main

        sys.argv = words
        sys.exit(main())
    if program == "pytest":
        rest = ["-m", "pytest", *rest]
    elif program != "python":
        (script,) = importlib.metadata.entry_points(group="console_scripts", name=program)
        sys.argv = words
        sys.exit(script.load()())
    while rest[0].startswith("-W"):  # a warning is an error anyway
        del rest[: 2 if rest[0] == "-W" else 1]
    _run_python(rest)


def _run_python(rest: list[str]) -> None:
    if rest[0] == "-c":
        sys.argv = ["-c", *rest[2:]]
        sys.path.insert(0, "")
        names = {"__name__": "__main__"}
        exec(compile(rest[1], "<string>", "exec"), names)  # noqa: S102 - as the interpreter does
    elif rest[0] == "-m":
        sys.argv = rest[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(rest[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = rest
        sys.path.insert(0, str(Path(rest[0]).resolve().parent))
        runpy.run_path(rest[0], run_name="__main__")


if __name__ == "__main__":
    _serve()
