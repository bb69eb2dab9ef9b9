"""`dovetail trace bisect`: the first node that differs on two backends."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.op_package_option import OpPackages, split_list
from dovetail.errors import counted
from dovetail_saver.commands.options import Calls, TracePath

if TYPE_CHECKING:
    from dovetail.runtime.config_file import RunConfig
    from dovetail_saver.bisecting import Bisection

_SIDES = 2


def bisect(
    path: TracePath,
    backend: Annotated[
        list[str],
        typer.Option(metavar="NAME", help="Given twice: the reference, then the target."),
    ],
    compare: Annotated[
        str,
        typer.Option(
            metavar="exact|VERIFIER",
            help="Decides which outputs differ: exactly, or by a verifier such as "
            "RtolAtol,rtolmargin=0.01.",
        ),
    ] = "RtolAtol",
    calls: Calls = None,
    config: Annotated[
        list[Path] | None,
        typer.Option(
            *("--config", "--config-file"),
            metavar="FILE",
            help="Settings of a backend instead of the recorded ones, as for net-run. Given once "
            "for both backends, or twice, in their order.",
        ),
    ] = None,
    op_packages: OpPackages = None,
) -> None:
    """Name the first node whose outputs differ on two backends.

    The trace is replayed on both. The node is run once more on the target with the inputs of the
    reference: what differs then is its own error, and the rest is inherited from nodes before it.
    The exit code is 1 if a node is found. All tensors are outputs of their graphs, so that no nodes
    are fused.
    """
    # imported here: the help needs no runtime
    from dovetail.cli.op_packages import load_op_packages
    from dovetail.cli.output import current_output
    from dovetail.errors import ConfigError
    from dovetail.runtime.installed import backend_class
    from dovetail_saver.bisecting import Bisector, Side
    from dovetail_saver.call_sets import parse_call_set
    from dovetail_saver.replay.settings import single_verifier

    if len(backend) != _SIDES:
        raise ConfigError(
            f"bisect needs two backends, got {len(backend)}",
            code="USAGE",
            where="--backend",
            hint="write --backend REFERENCE --backend TARGET",
        )
    chosen = None if calls is None else parse_call_set(calls)
    reference, target = backend
    for name in backend:
        backend_class(name)  # an unknown name is an error of its own
    sides = [Side(*side) for side in zip(backend, _configs(config or [], backend), strict=True)]
    packages = load_op_packages(split_list(op_packages, "--op-packages"))
    verifier = single_verifier(compare)
    found = Bisector(path, sides, verifier, chosen, packages).run()
    current_output().data(_data(found), _text(found, reference, target))
    if found.found is not None:
        raise typer.Exit(1)


def _configs(given: list[Path], backends: list[str]) -> list[RunConfig | None]:
    """Return the config of each backend.

    Raises:
        ConfigError: There are too many, or one has faults.
    """
    from dovetail.errors import ConfigError
    from dovetail.runtime.config_file import load_config

    if len(given) > _SIDES:
        raise ConfigError(
            f"bisect needs two configs at most, got {len(given)}",
            code="USAGE",
            where="--config",
            hint="write one for both backends, or one for each, in their order",
        )
    files = given if len(given) == _SIDES else given * _SIDES
    if not files:
        return [None] * _SIDES
    return [load_config(file, name) for file, name in zip(files, backends, strict=True)]


def _data(bisection: Bisection) -> dict[str, object]:
    import msgspec

    found = bisection.found
    data: dict[str, object] = {"executes": bisection.executes, "nodes": bisection.nodes}
    if found is None:
        return {**data, "node": None}
    errors = found.errors
    return {
        **data,
        "call": found.call,
        "graph": found.graph,
        "node": errors.node.name,
        "op_type": errors.node.op_type,
        "outputs": [
            {
                "tensor": output.tensor.name,
                "cause": output.cause.value,
                **{
                    kind: msgspec.to_builtins(getattr(output, kind))
                    for kind in ("total", "own", "inherited")
                },
            }
            for output in errors.outputs
        ],
        "failures": [str(failure) for failure in errors.failures],
    }


def _text(bisection: Bisection, reference: str, target: str) -> str:
    from dovetail.cli.output import table

    found = bisection.found
    counts = f"{counted(bisection.nodes, 'node')} in {counted(bisection.executes, 'execute')}"
    if found is None:
        return f"no node differs on {reference} and {target}: {counts}"
    node = found.errors.node
    rows = [
        (output.tensor.name, output.cause, kind, getattr(output, kind) or "unknown")
        for output in found.errors.outputs
        for kind in ("total", "own", "inherited")
    ]
    lines = [
        f"the first node that differs on {target}: '{node.name}' ({node.op_type}) of graph "
        f"'{found.graph}' in call {found.call}; compared {counts}",
        "",
        table(("OUTPUT", "CAUSE", "ERROR", "RESULT"), rows),
        *(f"not compared: {failure}" for failure in found.errors.failures),
    ]
    return "\n".join(lines)
