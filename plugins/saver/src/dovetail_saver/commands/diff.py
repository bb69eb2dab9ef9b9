"""`dovetail trace diff`: how two traces differ."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def diff(
    first: Annotated[Path, typer.Argument(metavar="A", help="A trace.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="Another trace.")],
) -> None:
    """Show the calls in which two traces differ.

    `-` and `+` mark calls that only A or only B has, and `!` those with other data. Times, threads
    and the numbers of handles do not count. The exit code is 1 if the traces differ. With --json,
    print one JSON object for each difference.
    """
    # imported here: the help needs no runtime
    import json
    import sys
    from dataclasses import asdict

    from dovetail.cli.output import current_output, write
    from dovetail_saver.differing import differences

    is_json, found = current_output().json, False
    for change in differences(first, second):
        found = True
        text = f"{change.kind} {change.call:6}  {change.text}"
        write(sys.stdout, f"{json.dumps(asdict(change)) if is_json else text}\n")
    if found:
        raise typer.Exit(1)
    current_output().message("no differences")
