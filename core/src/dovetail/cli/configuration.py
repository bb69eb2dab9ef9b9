"""`--show-config`: the values of a command's options, and where each comes from."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import typer

from dovetail.api.quantization import installed_quantizer
from dovetail.cli.output import current_output, table
from dovetail.quantization import QuantizationOptions, options_from

COMMAND_LINE, DEFAULT = "command line", "default"
_PARAMS = "algorithm_params"  # a table by algorithm, shown by key


def show_configuration(context: typer.Context, given: Mapping[str, Any]) -> None:
    """Print the value and the origin of each option of a command.

    Args:
        context: The command's context.
        given: The quantizer's options that were given.

    Raises:
        ConfigError: Options of the quantizer, or its config file, are invalid.
        PluginError: No quantizer is installed, or it is broken.
    """
    rows = list(_rows(context, given))
    data = [{"option": name, "value": value, "origin": origin} for name, value, origin in rows]
    text = table(("OPTION", "VALUE", "ORIGIN"), [(n, _text(v), o) for n, v, o in rows])
    current_output().data({"options": data}, text)


def _rows(context: typer.Context, given: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """Yield name, value and origin of each option."""
    options = options_from(given, COMMAND_LINE)
    configured = installed_quantizer().configured(options)
    file = f"config file {options.config_file}"
    fields = {each.name for each in msgspec.structs.fields(QuantizationOptions)}
    for param in context.command.params:
        name = str(param.name)
        if name in ("show_config", "help"):
            continue
        source = context.get_parameter_source(name)
        origin = DEFAULT if source is None or source.name == "DEFAULT" else COMMAND_LINE
        value = context.params.get(name)
        if name == _PARAMS:
            yield from _param_rows(options, configured, file)
            continue
        if name in fields:
            value = getattr(configured, name)
            if value != getattr(options, name):
                origin = file if origin == DEFAULT else f"{origin} and {file}"
        yield _spelling(param), _plain(value), origin


def _param_rows(
    options: QuantizationOptions, configured: QuantizationOptions, file: str
) -> Iterator[tuple[str, Any, str]]:
    for algorithm, values in configured.algorithm_params.items():
        own = options.algorithm_params.get(algorithm, {})
        for key, value in values.items():
            origin = COMMAND_LINE if key in own else file
            yield f"--algorithm-param {algorithm}.{key}", value, origin


def _spelling(param: Any) -> str:
    """Return the long option named like the parameter, or its first one; an argument's name."""
    name = str(param.name)
    own = "--" + name.replace("_", "-")
    longs = [each for each in param.opts if each.startswith("--")]
    return own if own in longs else next(iter(longs), name)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; values that a command joined are separated by spaces."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if hasattr(value, "__fspath__"):
        return str(value)
    return " ".join(value.strip("\0").split("\0")) if isinstance(value, str) else value


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value)) or "-"
    if isinstance(value, bool):
        return str(value).lower()
    return "-" if value is None or value == "" else str(value)
