"""`dovetail context-binary-utility`: the metadata of a context binary as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def context_binary_utility(
    context_binary: Annotated[Path, typer.Option(metavar="FILE", help="The context binary.")],
    json_file: Annotated[Path, typer.Option(metavar="FILE", help="The file to write.")],
) -> None:
    """Write the metadata of a context binary as JSON, with the keys of the SDK's tool.

    Only the manifest and the models are read, no weights. `dovetail inspect` shows the same file as
    text.
    """
    # imported here: the help needs no numpy
    from dovetail_tools._context_json import write_context_json

    write_context_json(context_binary, json_file)
