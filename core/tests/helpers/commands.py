"""Running commands in the process of a test."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from dovetail.cli import main


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The data of a command that was run with --json."""
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        """The error of a command that was run with --json."""
        return json.loads(self.err.splitlines()[-1])["error"]


Run = Callable[..., Done]


def runner(capsys: pytest.CaptureFixture[str], *before: object) -> Run:
    """Return a function that runs `dovetail` with its arguments after the given ones."""

    def run(*args: object) -> Done:
        capsys.readouterr()
        code = main([str(arg) for arg in (*before, *args)])
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return run


def net_run(run: Run, *args: object, model: str = "net.dvt") -> Done:
    """Run `dovetail net-run` over `list.txt`, with --json."""
    return run("--json", "net-run", "--model", model, "--input-list", "list.txt", *args)
