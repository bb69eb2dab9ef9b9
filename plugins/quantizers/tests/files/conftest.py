"""What the tests of encodings files share: writing a file, reading it, its faults."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dovetail.errors import Problem
from dovetail_quantizers.files import EncodingsFile, parse_encodings, read_encodings

Read = Callable[..., EncodingsFile]
Faults = Callable[..., tuple[Problem, ...]]


def stored(path: Path, data: Any) -> Path:
    path.write_text(data if isinstance(data, str) else json.dumps(data), "utf-8")
    return path


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Read what a file with this content says."""
    return lambda data: read_encodings(stored(tmp_path / "x.encodings", data))


@pytest.fixture
def faults(tmp_path: Path) -> Faults:
    """Return what is wrong with a file with this content."""
    return lambda data: parse_encodings(stored(tmp_path / "x.encodings", data))[1]


@pytest.fixture
def old() -> Callable[..., dict[str, Any]]:
    """Create the content of a file of version 0.6.1 with one tensor `t`."""

    def old(*entries: Any, section: str = "activation_encodings", **top: Any) -> dict[str, Any]:
        sections: dict[str, Any] = {"activation_encodings": {}, "param_encodings": {}}
        sections[section] = {"t": list(entries)}
        return {"version": "0.6.1"} | sections | top

    return old


@pytest.fixture
def new() -> Callable[..., dict[str, Any]]:
    """Create the content of a file of version 1.0.0 with these parameters."""

    def new(*entries: Any, **top: Any) -> dict[str, Any]:
        return {
            "version": "1.0.0",
            "activation_encodings": [],
            "param_encodings": list(entries),
        } | top

    return new


@pytest.fixture
def onnx_like() -> Callable[..., dict[str, Any]]:
    """Create the content of a file of version 2.0.0."""
    return lambda *entries, version="2.0.0": {"version": version, "encodings": list(entries)}
