"""Options of an exporter on the command line, for every command that writes a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:  # the help of commands needs no numpy
    from dovetail.errors import Problem
    from dovetail.ops.exporter import Exporter, ExportOptions

_OPTION = "--exporter-option"

ExporterOptions = Annotated[
    list[str] | None,
    typer.Option(
        _OPTION,
        metavar="NAME=VALUE",
        help="Another option of the exporter that writes the model; may be repeated.",
    ),
]


def exporter_options(
    exporter: Exporter | None,
    texts: Sequence[str],
    given: Mapping[str, Any] | None = None,
    spelled: Mapping[str, str] | None = None,
) -> ExportOptions | None:
    """Return the options of an exporter; None if there is neither.

    Args:
        exporter: The exporter; None for a `.dvt`, which takes no options.
        texts: Options as NAME=VALUE.
        given: Further options by name, from options of the command line of their own.
        spelled: How the command line spells those.

    Raises:
        ConfigError: Texts have another form, or the exporter lacks options; lists all (USAGE).
    """
    from dovetail.api.plugin_options import assignments, options_from
    from dovetail.errors import ConfigError, Problem

    problems: list[Problem] = []
    own = assignments(texts, _OPTION, problems)
    names = dict(spelled or {}) | {name: f"{_OPTION} {name}" for name in own}
    values = {**own, **(given or {})}
    for name in own.keys() & (given or {}).keys():
        problems.append(Problem("given twice", names[name]))
    if exporter is None:
        text = "a .dvt takes no options of an exporter"
        hint = "pass an output path with the suffix of another format"
        problems += [Problem(text, names[name], hint) for name in values]
    options = None
    try:
        options = None if exporter is None else options_from(exporter, values, names)
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError("invalid options", code="USAGE", problems=problems)
    return options
