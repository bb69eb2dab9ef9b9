"""A run of a tool: its table applied to the arguments, then our command."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

from dovetail.cli import main
from dovetail_qnn_names._tools import TOOLS
from dovetail_qnn_names._translation import translated


def run_tool(name: str, argv: Sequence[str] | None = None) -> int:
    """Run a tool and return the exit code.

    Args:
        name: Its name.
        argv: The arguments; by default those of the process.
    """
    arguments = sys.argv[1:] if argv is None else argv
    return main(arguments, prog=name, translate=partial(translated, TOOLS[name]))
