"""`dovetail trace redact`: random data instead of the recorded ones."""

from __future__ import annotations

import enum
from typing import Annotated

import typer

from dovetail_saver.commands.options import NewTrace, TracePath


class Kind(enum.StrEnum):
    """The values of `--redact`."""

    WEIGHTS = "weights"
    INPUTS = "inputs"


def redact(
    path: TracePath,
    out: NewTrace,
    kinds: Annotated[
        list[Kind],
        typer.Option(
            "--redact", metavar="weights|inputs", help="Data to replace. May be repeated."
        ),
    ],
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the random numbers.")] = 0,
) -> None:
    """Write a trace with random weights or inputs, to give it away.

    The random data have the same types and statistics. Weights are constants of float and
    fixed-point types; indices, shapes and params of nodes are kept. Recorded outputs are left out.
    Names of tensors and nodes are kept.
    """
    # imported here: the help needs no runtime
    from dovetail.cli.output import current_output
    from dovetail_saver.redaction import Redacted
    from dovetail_saver.redaction import redact as write_redacted

    count = write_redacted(path, out, frozenset(Redacted(kind.value) for kind in kinds), seed)
    data = {"trace": str(out), "replaced": count}
    current_output().data(data, f"{out}: {count:,} payloads replaced")
