"""The path of a model that is given as an argument or as an option."""

from __future__ import annotations

from pathlib import Path

from dovetail.cli.output import current_output
from dovetail.errors import ConfigError


def given_model(argument: Path | None, option: Path | None, name: str) -> Path:
    """Return the path of a model.

    Args:
        argument: The command's argument.
        option: The value of the option.
        name: Name of the option.

    Raises:
        ConfigError: There is none, or they differ.
    """
    command = current_output().command
    if argument is not None and option is not None and argument != option:
        raise ConfigError(
            f"two models: '{argument}' and {name} '{option}'",
            code="USAGE",
            where=command,
            hint="pass one of them; each model needs a command of its own",
        )
    source = argument or option
    if source is None:
        raise ConfigError(
            "missing model",
            code="USAGE",
            where=command,
            hint=f"pass its path: `{command} MODEL` or `{command} -i MODEL`",
        )
    return source
