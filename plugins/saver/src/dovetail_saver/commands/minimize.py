"""`dovetail trace minimize`: the smallest trace that still fails."""

from __future__ import annotations

from typing import Annotated

import typer

from dovetail.cli.op_package_option import OpPackages, split_list
from dovetail_saver.commands.options import NewTrace, TracePath


def minimize(
    path: TracePath,
    out: NewTrace,
    check: Annotated[
        str,
        typer.Option(
            metavar="COMMAND",
            help="Command that checks a trace; the trace replaces {} or follows as the last "
            "argument.",
        ),
    ],
    backend: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Backend that computes the values of tensors inside of graphs; by default the "
            "recorded one.",
        ),
    ] = None,
    op_packages: OpPackages = None,
) -> None:
    """Shrink a failing trace to the smallest that still fails.

    First there are fewer calls, then fewer nodes of each graph. The exit codes of the command are
    those of `git bisect run`: 0 for a good trace, 1 to 127 for a bad one, but 125 for one that
    cannot be checked. Where nodes are cut off, their results become inputs.
    """
    # imported here: the help needs no runtime
    from dovetail.cli.op_packages import load_op_packages
    from dovetail.cli.output import current_output
    from dovetail.runtime.installed import backend_class
    from dovetail_saver.minimizing import CommandCheck
    from dovetail_saver.minimizing import minimize as write_minimized

    if backend is not None:
        backend_class(backend)  # an unknown name is an error of its own
    packages = load_op_packages(split_list(op_packages, "--op-packages"))
    found = write_minimized(path, out, CommandCheck(check), backend, packages)
    output = current_output()
    if found.uncut:
        output.message(f"graphs keep their nodes: {found.uncut}")
    data = {"trace": str(out), "before": found.before, "after": found.after}
    text = f"{out}: {found.after:,} of {found.before:,} calls, after {found.checks:,} checks"
    output.data({**data, "checks": found.checks}, text)
