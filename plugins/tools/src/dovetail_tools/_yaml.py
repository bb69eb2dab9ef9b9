"""Reading of YAML files as plain data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from dovetail.errors import ConfigError
from dovetail.files import read_start

_MAX_BYTES = 1 << 20  # of a file that people write


def read_yaml(path: Path) -> Any:
    """Return the content of a YAML file, without aliases and tags.

    Raises:
        FrontendError: The file cannot be read.
        ConfigError: It is too large or is not valid YAML.
    """
    content = read_start(path, _MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise ConfigError(f"the file has more than {_MAX_BYTES} bytes", where=str(path))
    try:
        text = content.decode("utf-8-sig")
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):  # a few of them may request any amount of data
                raise ConfigError("aliases are not supported", where=f"{path}:{_line(event)}")
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark is not None else str(path)
        reason = getattr(error, "problem", None) or str(error)
        raise ConfigError(f"the file is not valid YAML: {reason}", where=where) from error


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Loads plain data; a key that occurs twice is an error."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping's content."""
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        if len(found) < len(node.value):
            raise yaml.constructor.ConstructorError(
                None, None, "duplicate keys in one mapping", node.start_mark
            )
        return found


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1
