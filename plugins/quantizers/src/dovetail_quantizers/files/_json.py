"""Strict JSON, except for comments: unique keys, typed values, and all faults at once."""

from __future__ import annotations

import json
import math
import re
import reprlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from dovetail.errors import FrontendError, QuantizationError, suggest_name
from dovetail.files import read_start
from dovetail_quantizers.files._findings import FileLocation, Findings
from dovetail_quantizers.files.form import Floats

S = TypeVar("S", bound=msgspec.Struct)

MAX_BYTES = 1 << 30
_DEPTH = 40
# A string or a comment. Each alternative also matches up to the end of the text, so that text
# without an end is searched once.
_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*+"?|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_NOT_NEWLINE = re.compile(r"[^\n]")


class _Repeating(dict[str, Any]):
    """An object with duplicate keys."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = Counter(key for key, _ in pairs)
        self.repeated = [key for key, count in counts.items() if count > 1]


def load_object(path: Path, findings: Findings) -> dict[str, Any]:
    """Return the object of a JSON file, which may have comments; report duplicate keys.

    Raises:
        FrontendError: The file cannot be read.
        QuantizationError: It is not a JSON object.
    """
    text = _text(path)
    try:
        try:
            data = json.loads(text, object_pairs_hook=_object)
        except json.JSONDecodeError:
            if "//" not in text and "/*" not in text:
                raise
            data = json.loads(_without_comments(text), object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        location = f"{path}:{error.lineno}:{error.colno}"
        raise QuantizationError(f"not valid JSON: {error.msg}", where=location) from error
    except (ValueError, RecursionError) as error:  # too many digits, or brackets nested too deeply
        raise QuantizationError(f"not usable JSON: {error}", where=str(path)) from error
    if not isinstance(data, dict):
        raise QuantizationError("an encodings file must be a JSON object", where=str(path))
    for location, key in _repeated(data, "$"):
        findings.at(location).fault(f"the key {key!r} appears more than once")
    return data


def decode(data: object, to: type[S], at: FileLocation) -> S | None:
    """Return plain data as a Struct; report every wrong key."""
    try:
        return msgspec.convert(data, to)
    except msgspec.ValidationError:
        pass  # key by key, to find all faults
    if not isinstance(data, dict):
        at.fault(f"expected an object, got {shown(data)}")
        return None
    fields = {f.encode_name: f for f in msgspec.structs.fields(to)}
    for key in data.keys() - fields.keys():
        at.fault("unknown key", f".{key}", suggest_name(str(key), fields))
    for key, known in fields.items():
        if key in data:
            _check(data[key], known.type, at, f".{key}")
        elif known.required:
            at.fault(f"the key '{key}' is missing")
    return None


def take(data: dict[str, Any], key: str, to: Any, at: FileLocation) -> Any:
    """Return the typed value of a key; None if it is missing or wrong, which is reported."""
    if key not in data or not _check(data[key], to, at, f".{key}"):
        return None
    return data[key]


def array(value: object, at: FileLocation, below: str) -> Floats | None:
    """Return a number or a regular nested list of numbers as an array; report anything else."""
    try:
        found = np.asarray(value)
    except (ValueError, RecursionError):
        found = np.asarray(None)
    if found.dtype.kind in "iuf" and found.size:
        return found.astype(np.float64)
    what = "an empty list" if found.size == 0 else shown(value)
    at.fault(f"expected a number or a regular list of numbers, got {what}", below)
    return None


def finite(value: object) -> bool:
    """Return whether a value is not an infinite or NaN number."""
    return not isinstance(value, float) or math.isfinite(value)


def shown(value: object) -> str:
    """Return a short text of a value for messages."""
    return reprlib.repr(value)


def _check(value: object, to: Any, at: FileLocation, below: str) -> bool:
    try:
        msgspec.convert(value, to)
    except msgspec.ValidationError as error:
        text, _, inner = str(error).rpartition(" - at ")
        at.fault(text or inner, below + inner.strip("`").removeprefix("$") if text else below)
        return False
    return True


def _text(path: Path) -> str:
    stored = read_start(path, MAX_BYTES + 1)
    if len(stored) > MAX_BYTES:
        raise QuantizationError(
            f"the file is longer than {MAX_BYTES} bytes, the limit for encodings files",
            where=str(path),
        )
    try:
        return stored.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FrontendError("the file is not UTF-8 text", where=str(path)) from error


def _without_comments(text: str) -> str:
    """Return a text with spaces instead of comments, so that positions stay."""

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        return found if found[0] == '"' else _NOT_NEWLINE.sub(" ", found)

    return _COMMENT.sub(blank, text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    return made if len(made) == len(pairs) else _Repeating(pairs)


def _repeated(data: object, path: str) -> Iterator[tuple[str, str]]:
    if path.count("[") + path.count(".") > _DEPTH:
        return  # deeper than any valid object
    if isinstance(data, _Repeating):
        yield from ((path, key) for key in data.repeated)
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _repeated(value, f"{path}.{key}")
    elif isinstance(data, list) and data and isinstance(data[0], dict | list):
        for i, value in enumerate(data):
            yield from _repeated(value, f"{path}[{i}]")
