"""The report of `dovetail convert --dry-run`."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import typer

from dovetail.api.conversion import find_frontend
from dovetail.api.pipeline import PIPELINE, pass_options, pipeline_passes
from dovetail.cli.output import current_output, table
from dovetail.errors import DovetailError, ExitCode
from dovetail.ir import Pass
from dovetail.ops.frontend import DryRun, Frontend, OpUse
from dovetail.plugins import list_plugins
from dovetail_tools._conversion import Conversion

_PASSES = "dovetail.passes"


def show_dry_run(conversion: Conversion) -> None:
    """Print what a conversion would do, without writing anything.

    Raises:
        DovetailError: The file is not a readable model, or options are invalid.
        typer.Exit: The model cannot be converted; with the exit code of the attempt.
    """
    source = conversion.source
    frontend = find_frontend(source, conversion.input_format)
    steps = pipeline_passes(conversion.passes) if conversion.optimize else ()
    found = frontend.dry_run(source, conversion.options_by_graph()[0], conversion.ops)
    verdict, becomes = _attempt(frontend, conversion)
    passes = pass_rows(steps)
    output = current_output()
    output.data(_data(source, passes, found, becomes), _text(source, passes, found, becomes))
    if verdict is not ExitCode.OK:
        count = len(found.problems)
        output.message(f"{source}: cannot be converted: {count} problem(s), listed above")
        raise typer.Exit(int(verdict))


def pass_rows(steps: Iterable[Pass]) -> list[dict[str, Any]]:
    """Return names, dists and options of passes, in order."""
    dists = {plugin.name: plugin.dist for plugin in list_plugins(_PASSES)}
    return [
        {
            "name": step.name,
            # passes that are not plugins belong to the pipeline
            "dist": dists.get(step.name, dists[PIPELINE]),
            "options": pass_options(step),
        }
        for step in steps
    ]


def _attempt(frontend: Frontend, conversion: Conversion) -> tuple[ExitCode, dict[str, int]]:
    """Return the exit code of reading the model, and the numbers of ops that result."""
    try:
        with _silence():  # the dry run has logged the same
            graphs = [
                graph
                for options in conversion.options_by_graph()
                for graph in frontend.read(conversion.source, options, conversion.ops)
            ]
    except DovetailError as error:
        return error.exit_code, {}
    nodes = [node for graph in graphs for node in graph.nodes]
    return ExitCode.OK, dict(sorted(Counter(f"{n.package}::{n.op_type}" for n in nodes).items()))


@contextmanager
def _silence() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def _data(
    source: Path, passes: list[dict[str, Any]], found: DryRun, ops: dict[str, int]
) -> dict[str, Any]:
    return {
        "source": str(source),
        "convertible": not found.problems,
        "passes": passes,
        **msgspec.to_builtins(found),
        "becomes": ops,
    }


def _text(source: Path, passes: list[dict[str, Any]], found: DryRun, ops: dict[str, int]) -> str:
    parts = [_passes_text(passes), _operators_text(found.operators)]
    if ops:
        parts.append(
            f"resulting ops, before the passes\n{_indented(table(('OP', 'NODES'), ops.items()))}"
        )
    if found.unused_inputs:
        names = "\n".join(found.unused_inputs)
        parts.append(f"inputs that no output depends on\n{_indented(names)}")
    if found.problems:
        listed = "\n".join(f"- {problem}" for problem in found.problems)
        parts.append(f"problems\n{_indented(listed)}")
    else:
        parts.append(f"{source} can be converted")
    return "\n\n".join(parts)


def _passes_text(passes: list[dict[str, Any]]) -> str:
    if not passes:
        return "no passes"
    rows = [
        (i, row["name"], row["dist"], ",".join(f"{k}={v}" for k, v in row["options"].items()))
        for i, row in enumerate(passes, 1)
    ]
    return f"passes, in order\n{_indented(table(('', 'PASS', 'DIST', 'OPTIONS'), rows))}"


def _operators_text(operators: tuple[OpUse, ...]) -> str:
    rows = [(_name(use), use.version or "", use.count, _verdict(use)) for use in operators]
    header = ("OPERATOR", "VERSION", "NODES", "CONVERSION")
    return f"operators of the model\n{_indented(table(header, rows))}"


def _name(use: OpUse) -> str:
    return f"{use.domain}::{use.op_type}" if use.domain else use.op_type


def _verdict(use: OpUse) -> str:
    if not use.supported:
        return "not supported"
    if use.folded == use.count:
        return "computed at import"
    return f"converted; {use.folded} computed at import" if use.folded else "converted"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
