"""The option `--show-config`, for commands that quantize."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

_SHOW = Annotated[
    bool,
    typer.Option(
        "--show-config",
        help="Only print the value of each option, and whether it is from the command line, the "
        "config file or a default.",
    ),
]


def shows_configuration(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the option `--show-config`, with which it only prints its options.

    Args:
        command: A function with the parameter `quantization`, as for `takes_quantization`.
    """
    own = inspect.signature(command, eval_str=True).parameters.values()
    keyword = inspect.Parameter.KEYWORD_ONLY
    added = [
        inspect.Parameter("context", keyword, annotation=typer.Context),
        inspect.Parameter("show_config", keyword, default=False, annotation=_SHOW),
    ]

    @functools.wraps(command)
    def wrapped(*, context: typer.Context, show_config: bool, **arguments: Any) -> None:
        if show_config:
            from dovetail.cli.configuration import show_configuration  # the help needs no numpy

            show_configuration(context, arguments["quantization"])
        else:
            command(**arguments)

    # a parameter of this name is replaced by the quantizer's options, which are last
    first = [p for p in own if p.name != "quantization"]
    last = [p for p in own if p.name == "quantization"]
    parameters = [*first, *added, *last]
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return wrapped
