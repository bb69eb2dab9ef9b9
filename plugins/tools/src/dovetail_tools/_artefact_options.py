"""The declaration of options about what a converted file says of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dovetail_tools._option_groups import OptionGroup

ARTEFACT = OptionGroup(
    "artefact",
    {
        "model_version": Annotated[
            str | None,
            typer.Option(
                "--model-version",
                "--set-model-version",
                metavar="TEXT",
                help="Version of the model, up to 64 ASCII characters; stored in the file.",
            ),
        ],
        "copyright_file": Annotated[
            Path | None,
            typer.Option(
                "--copyright-file", metavar="FILE", help="Text that is stored in the file."
            ),
        ],
    },
)
