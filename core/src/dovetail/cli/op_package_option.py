"""The declaration of `--op-packages`, apart from its meaning: a command's help needs no numpy."""

from __future__ import annotations

from typing import Annotated

import typer

from dovetail.errors import ConfigError

OpPackages = Annotated[
    str | None,
    typer.Option(
        "-opl",
        "--op-packages",
        "--op-package-lib",
        metavar="MODULE[:ATTRIBUTE[:TARGET]][,...]",
        help="Op packages that are not installed, by module or by path of a Python file or folder; "
        "TARGET is the backend that one is for. They replace installed packages of the same name.",
    ),
]


def split_list(text: str | None, option: str) -> tuple[str, ...]:
    """Return the items of a comma-separated option.

    Raises:
        ConfigError: An item is empty.
    """
    if text is None:
        return ()
    items = tuple(item.strip() for item in text.split(","))
    if "" in items:
        raise ConfigError(f"empty item in the list '{text}'", code="USAGE", where=option)
    return items
