"""Config files: TOML, JSON and YAML read as plain data, and texts in YAML that is written."""

from __future__ import annotations

import importlib
import json
import re
import tomllib
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

from dovetail.errors import ConfigError

# Errors of both parsers: bad syntax, integers of thousands of digits, and nesting that is too deep.
_UNPARSABLE = (ValueError, RecursionError)
# Floats of YAML 1.2 that YAML 1.1 reads as text: without a point, or a sign of the exponent.
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+")
_TAG = "tag:yaml.org,2002:"
_RESOLVED = tuple(_TAG + kind for kind in ("int", "float", "bool", "timestamp"))  # without quotes
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
        raise _other_kind(path, "an object", data)
    return data


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file; see `read_yaml_data`."""
    data = read_yaml_data(path)
    if not isinstance(data, dict):
        raise _other_kind(path, "a mapping", data)
    return data


def yaml_scalar(text: str) -> str:
    """Return a text as a YAML scalar on one line, which `read_yaml` reads as that text."""
    # JSON escapes quotes and controls as YAML does, but other characters by pairs of surrogates
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in quoted)


def read_yaml_data(path: Path, *, texts: Collection[str] = ()) -> Any:
    """Return the content of a YAML 1.1 file, where Yes and on are booleans.

    Numbers may have the form of YAML 1.2, too: 1e-3. A key that occurs twice is an error, and so
    are aliases, by which a small file becomes huge.

    Args:
        path: The file.
        texts: Keys whose values are text as it is written, such as names of tensors: 023 or no.

    Raises:
        ConfigError: It cannot be read, is not valid, or the package PyYAML is not installed.
    """
    text = _text(path)
    yaml = _yaml(str(path))
    try:
        return yaml.load(text, Loader=_strict_loader(yaml, texts))
    except (*_UNPARSABLE, TypeError, yaml.YAMLError) as error:  # TypeError: a key that is a list
        raise _malformed(path, "YAML", " ".join(str(error).split())) from error


def yaml_text(data: Any) -> str:
    """Return plain data as YAML text, in its order; equal data give equal text.

    Raises:
        ConfigError: The package PyYAML is not installed.
    """
    return str(_yaml("").safe_dump(data, sort_keys=False, allow_unicode=True))


def _yaml(where: str) -> Any:
    try:
        return importlib.import_module("yaml")  # only these files need it
    except ImportError as error:
        raise ConfigError(
            "YAML requires the package PyYAML, which is not installed",
            where=where,
            hint="install it, or use JSON in a file with the suffix .json",
        ) from error


def _strict_loader(yaml: Any, texts: Collection[str]) -> Any:
    """Return PyYAML's safe loader with more numbers, without aliases and repeated keys.

    Values of the keys `texts` are not resolved.
    """

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise ValueError("aliases are not supported")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            pairs = [(self.construct_object(key, deep=True), None) for key, _ in node.value]
            _object(pairs)
            for (key, _), (_, value) in zip(pairs, node.value, strict=True):
                if key in texts and value.tag in _RESOLVED:
                    value.tag = f"{_TAG}str"
            return super().construct_mapping(node, deep)

    Loader.add_implicit_resolver(f"{_TAG}float", _FLOAT, list("+-.0123456789"))
    return Loader


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
        return content.decode("utf-8-sig")  # editors may write a byte order mark
    except (OSError, ValueError) as error:
        reason = "the name is not a path"  # NUL, or half a surrogate pair
        if isinstance(error, UnicodeDecodeError):
            reason = "not UTF-8 text"
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
        raise ConfigError(
            f"cannot read the config file: {reason}", code="CONFIG_UNREADABLE", where=str(path)
        ) from error


def _other_kind(path: Path, expected: str, data: object) -> ConfigError:
    kind = "nothing" if data is None else "a list" if isinstance(data, list) else "a single value"
    return ConfigError(
        f"expected {expected}, got {kind}", code="CONFIG_UNREADABLE", where=str(path)
    )


def _malformed(path: Path, form: str, reason: str) -> ConfigError:
    line = re.search(r"line (\d+)", reason)
    place = f"{path}:{line[1]}" if line else str(path)
    return ConfigError(f"not valid {form}: {reason}", code="CONFIG_UNREADABLE", where=place)
