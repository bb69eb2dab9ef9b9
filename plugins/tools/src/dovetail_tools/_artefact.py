"""Version and copyright of a converted model, which its file and its exports contain."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from dovetail.api import Model
from dovetail.errors import ConfigError, Problem
from dovetail.files import read_start

MAX_VERSION_BYTES = 64
_MAX_COPYRIGHT_BYTES = 1 << 20


def read_artefact(artefact: Mapping[str, Any]) -> dict[str, str]:
    """Return what the options say, by the keys of a manifest's options.

    Raises:
        FrontendError: The file of the copyright cannot be read.
        ConfigError: The version or the text is invalid; lists both.
    """
    problems: list[Problem] = []
    found: dict[str, str] = {}
    version, path = artefact["model_version"], artefact["copyright_file"]
    if version is not None:
        if not version.isascii() or not version.isprintable() or len(version) > MAX_VERSION_BYTES:
            text = f"expected up to {MAX_VERSION_BYTES} printable ASCII characters"
            problems.append(Problem(text, "--model-version"))
        found["model_version"] = version
    if path is not None:
        found["copyright"] = _text(path, problems)
    if problems:
        raise ConfigError("invalid options", code="USAGE", problems=problems)
    return found


def with_artefact(model: Model, found: Mapping[str, str]) -> Model:
    """Return a model whose manifest says this, too."""
    if not found:
        return model
    options = model.producer.options | dict(found)
    producer = msgspec.structs.replace(model.producer, options=options)
    return msgspec.structs.replace(model, producer=producer)


def _text(path: Path, problems: list[Problem]) -> str:
    content = read_start(path, _MAX_COPYRIGHT_BYTES + 1)
    if len(content) > _MAX_COPYRIGHT_BYTES:
        problems.append(Problem(f"more than {_MAX_COPYRIGHT_BYTES} bytes", f"{path}"))
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        problems.append(Problem(f"not UTF-8 text: {error.reason}", f"{path}"))
        return ""
