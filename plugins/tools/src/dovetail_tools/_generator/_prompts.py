"""Questions for an op package on the terminal, repeated until the input is valid."""

from __future__ import annotations

import typer

from dovetail.cli.output import current_output
from dovetail.errors import ConfigError, Problem
from dovetail_tools._generator._names import name_faults, package_faults
from dovetail_tools._generator._spelled import SpelledOp, spelled_op, spelled_part
from dovetail_tools._generator._xml_text import XmlText

_SIDES = (
    ("in", "inputs, for example `x: float32 [n, c]` or `x`; an empty line ends the list"),
    ("out", "outputs, in the same way; shapes may use names of the inputs: `y [n, 2 * c]`"),
    ("param", "params, for example `alpha: float32 = 1.0` or `mode: {SOFT, HARD} = SOFT`"),
)


def ask() -> XmlText:
    """Return the op package that the user describes."""
    while True:
        package = _asked("name of the op package")
        domain = _asked("domain of its ONNX operators, empty for the package's name", "")
        version = _asked("version", "1.0.0")
        if not _shown(package_faults(package, domain, version)):
            break
    ops: list[SpelledOp] = []
    while not ops or typer.confirm("another op?", default=False, err=True):
        op = _ask_op()
        made = XmlText(package, domain, version, [*ops, op])
        try:
            faults = name_faults(made.definitions())
        except ConfigError as error:
            faults = list(error.problems)
        if not _shown(faults):
            ops.append(op)
    return XmlText(package, domain, version, ops)


def _ask_op() -> SpelledOp:
    while True:
        name = _asked("name of the op")
        parts = [part for side, question in _SIDES for part in _ask_parts(side, question)]
        problems: list[Problem] = []
        op = spelled_op(f"{name}({', '.join(parts)})", problems, "op")
        if not _shown(problems):
            return op


def _ask_parts(side: str, question: str) -> list[str]:
    current_output().message(question)
    parts: list[str] = []
    while text := _asked(f"  {side}", ""):
        problems: list[Problem] = []
        spelled_part(f"{side} {text}", text, problems)
        if not _shown(problems):
            parts.append(f"{side} {text}")
    return parts


def _asked(what: str, default: str | None = None) -> str:
    shown = bool(default)
    answer = typer.prompt(what, default=default, show_default=shown, err=True)
    return str(answer).strip()


def _shown(problems: list[Problem]) -> bool:
    """Print the faults of an input; return whether there are any."""
    for problem in problems:
        hint = f" ({problem.hint})" if problem.hint else ""
        current_output().message(f"  invalid input: {problem.message}{hint}")
    return bool(problems)
