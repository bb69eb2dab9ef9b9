"""The report of `dovetail convert --dry-run`."""

from __future__ import annotations

import enum
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import typer

from dovetail.api.conversion import find_frontend
from dovetail.api.pipeline import PIPELINE, pass_options, pipeline_passes
from dovetail.cli.output import current_output, table
from dovetail.errors import DovetailError, ExitCode, counted
from dovetail.ir import Node, Pass
from dovetail.ops.frontend import DryRun, Frontend, OpUse
from dovetail.plugins import list_plugins
from dovetail_tools._conversion import Conversion
from dovetail_tools._errors import usage
from dovetail_tools._pairs import split_values

_PASSES = "dovetail.passes"


INFO, DEBUG = "info", "debug"


def dry_run_value(uses: Sequence[str]) -> str:
    """Return the value of `--dry-run` from its uses, of which the last one counts.

    Raises:
        ConfigError: The value is another one.
    """
    value = (*split_values(uses[-1]), INFO)[0]
    if value not in (INFO, DEBUG):
        raise usage(
            f"unsupported value '{value}'; expected {INFO}, {DEBUG} or no value", where="--dry-run"
        )
    return value


def show_dry_run(conversion: Conversion, *, is_detailed: bool = False) -> None:
    """Print what a conversion would do, without writing anything.

    Args:
        conversion: The model and the options.
        is_detailed: Whether to print a message for each operator instead of tables.

    Raises:
        DovetailError: The file is not a readable model, or options are invalid.
        typer.Exit: The model cannot be converted; with the exit code of the attempt.
    """
    source = conversion.source
    frontend = find_frontend(source, conversion.input_format)
    steps = pipeline_passes(conversion.passes, only_chosen=not conversion.optimize)
    found = frontend.dry_run(source, conversion.options_by_graph()[0], conversion.ops)
    verdict, nodes = _attempt(frontend, conversion)
    becomes = dict(sorted(Counter(f"{n.package}::{n.op_type}" for n in nodes).items()))
    passes = pass_rows(steps)
    output = current_output()
    data = _data(source, passes, found, becomes)
    if is_detailed:
        ops = _ops_by_source(nodes)
        output.data(data | {"nodes": ops}, "\n".join(_messages(source, found, ops)))
    else:
        output.data(data, _text(source, passes, found, becomes))
    if verdict is not ExitCode.OK:
        count = counted(len(found.problems), "problem")
        output.message(f"{source}: cannot be converted: {count}, listed above")
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


def _ops_by_source(nodes: Iterable[Node]) -> dict[str, list[str]]:
    """Return the ops that each operator of the model becomes, by its name."""
    found: dict[str, list[str]] = {}
    for node in nodes:
        for source in node.sources:
            found.setdefault(source, []).append(f"{node.package}::{node.op_type}")
    return found


def _messages(source: Path, found: DryRun, ops: Mapping[str, Sequence[str]]) -> Iterator[str]:
    yield from (f"{name}: becomes {', '.join(types)}" for name, types in ops.items())
    yield from (f"input '{name}': no output depends on it" for name in found.unused_inputs)
    yield from map(str, found.problems)
    if not found.problems:
        yield f"{source} can be converted"


def _attempt(frontend: Frontend, conversion: Conversion) -> tuple[ExitCode, list[Node]]:
    """Return the exit code of reading the model, and the nodes that result."""
    try:
        with _silence():  # the dry run has logged the same
            graphs = [
                graph
                for options in conversion.options_by_graph()
                for graph in frontend.read(conversion.source, options, conversion.ops)
            ]
    except DovetailError as error:
        return error.exit_code, []
    return ExitCode.OK, [node for graph in graphs for node in graph.nodes]


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
        (
            i,
            row["name"],
            row["dist"],
            ",".join(f"{k}={_value_text(v)}" for k, v in row["options"].items()),
        )
        for i, row in enumerate(passes, 1)
    ]
    return f"passes, in order\n{_indented(table(('', 'PASS', 'DIST', 'OPTIONS'), rows))}"


def _value_text(value: object) -> str:
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, tuple | list):
        return f"[{','.join(map(_value_text, value))}]"
    return str(value)


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
