"""Reading of config files: TOML and JSON as plain data."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

from dovetail.errors import ConfigError

# Errors of both parsers: bad syntax, integers of thousands of digits, and nesting that is too deep.
_UNPARSABLE = (ValueError, RecursionError)
_MAX_BYTES = 16 * 2**20  # of a config file


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file.

    Raises:
        ConfigError: It cannot be read, or is not valid.
    """
    try:
        return tomllib.loads(_text(path))
    except _UNPARSABLE as error:
        raise _malformed(path, "TOML", str(error)) from error


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; a key that occurs twice is an error.

    Raises:
        ConfigError: It cannot be read, or is not valid.
    """
    try:
        data = json.loads(_text(path), object_pairs_hook=_object)
    except _UNPARSABLE as error:
        raise _malformed(path, "JSON", str(error)) from error
    if not isinstance(data, dict):
        raise _malformed(path, "JSON", "expected an object")
    return data


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = Counter(name for name, _ in pairs)
        twice = ", ".join(f"'{name}'" for name, count in names.items() if count > 1)
        raise ValueError(f"duplicate keys in one object: {twice}")
    return found


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:  # a device may have no end
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise OSError(f"more than {_MAX_BYTES} bytes")
        return content.decode()
    except (OSError, ValueError) as error:
        reason = "the name is not a path"  # NUL, or half a surrogate pair
        if isinstance(error, UnicodeDecodeError):
            reason = "not UTF-8 text"
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
        raise ConfigError(
            f"cannot read the config file: {reason}", code="CONFIG_UNREADABLE", where=str(path)
        ) from error


def _malformed(path: Path, form: str, reason: str) -> ConfigError:
    line = re.search(r"line (\d+)", reason)
    place = f"{path}:{line[1]}" if line else str(path)
    return ConfigError(f"not valid {form}: {reason}", code="CONFIG_UNREADABLE", where=place)
