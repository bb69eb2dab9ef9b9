"""The report of `dovetail convert --dry-run`."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import typer

from dovetail.api.conversion import PIPELINE, find_frontend, pipeline_passes
from dovetail.cli.output import current_output, table
from dovetail.errors import DovetailError, ExitCode
from dovetail.ops import OpRegistry
from dovetail.ops.frontend import DryRun, Frontend, FrontendOptions, OpUse
from dovetail.plugins import list_plugins, load_all

_PASSES = "dovetail.passes"


def show_dry_run(
    source: Path,
    options: FrontendOptions,
    ops: OpRegistry,
    input_format: str | None = None,
    *,
    optimize: bool,
) -> None:
    """Print what a conversion would do, without writing anything.

    Args:
        source: The model.
        options: Options of the frontend.
        ops: Finds ops.
        input_format: Name of the frontend; None to find it.
        optimize: Whether the passes would run.

    Raises:
        DovetailError: The file is not a readable model.
        typer.Exit: The model cannot be converted; with the exit code of the attempt.
    """
    frontend = find_frontend(source, input_format)
    passes = pass_origins() if optimize else []
    found = frontend.dry_run(source, options, ops)
    verdict, becomes = _attempt(frontend, source, options, ops)
    output = current_output()
    output.data(_data(source, passes, found, becomes), _text(source, passes, found, becomes))
    if verdict is not ExitCode.OK:
        count = len(found.problems)
        output.message(f"{source}: cannot be converted: {count} problem(s), listed above")
        raise typer.Exit(int(verdict))


def pass_origins() -> list[tuple[str, str]]:
    """Return the conversion's passes in order, with the dists that provide them."""
    dists = {plugin.name: plugin.dist for plugin in list_plugins(_PASSES)}
    others = [(each, dists[name]) for name, each in load_all(_PASSES).items() if name != PIPELINE]
    return [
        # passes that are not plugins belong to the pipeline
        (step.name, next((dist for each, dist in others if each is step), dists[PIPELINE]))
        for step in pipeline_passes()
    ]


def _attempt(
    frontend: Frontend, source: Path, options: FrontendOptions, ops: OpRegistry
) -> tuple[ExitCode, dict[str, int]]:
    """Return the exit code of reading the model, and the numbers of ops that result."""
    try:
        with _silence():  # the dry run has logged the same
            graph = frontend.read(source, options, ops)
    except DovetailError as error:
        return error.exit_code, {}
    counts = Counter(f"{node.package}::{node.op_type}" for node in graph.nodes)
    return ExitCode.OK, dict(sorted(counts.items()))


@contextmanager
def _silence() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def _data(
    source: Path, passes: list[tuple[str, str]], found: DryRun, ops: dict[str, int]
) -> dict[str, Any]:
    return {
        "source": str(source),
        "convertible": not found.problems,
        "passes": [{"name": name, "dist": dist} for name, dist in passes],
        **msgspec.to_builtins(found),
        "becomes": ops,
    }


def _text(source: Path, passes: list[tuple[str, str]], found: DryRun, ops: dict[str, int]) -> str:
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


def _passes_text(passes: list[tuple[str, str]]) -> str:
    if not passes:
        return "no passes"
    rows = [(i, name, dist) for i, (name, dist) in enumerate(passes, 1)]
    return f"passes, in order\n{_indented(table(('', 'PASS', 'DIST'), rows))}"


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
