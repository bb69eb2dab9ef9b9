"""JSON files that store results for later runs: of calibrations, and of searches."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from dovetail import typed
from dovetail.errors import QuantizationError
from dovetail.files import atomic_write, unreadable


class ResultsFile(msgspec.Struct):
    """The contents of a file; each kind of file adds a field with its results."""

    version: int = 1


_F = TypeVar("_F", bound=ResultsFile)


def read_results(path: Path, kind: type[_F], what: str) -> _F:
    """Return the contents of a file, empty if it does not exist yet.

    Args:
        path: The file.
        kind: The type of its contents.
        what: What the file is, for messages.

    Raises:
        FrontendError: The file cannot be read.
        QuantizationError: The file is damaged, or of another kind.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return kind()
    except OSError as error:
        raise unreadable(path, error) from error
    try:
        plain = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise QuantizationError(
            f"not a {what}", where=str(path), hint="use another file, or delete this one"
        ) from error
    file = typed.convert(plain, kind, where=str(path), error=QuantizationError)
    if file.version != 1:
        raise QuantizationError(
            f"unsupported version {file.version} of a {what}; expected 1", where=str(path)
        )
    return file


def write_results(path: Path, file: ResultsFile) -> None:
    """Write a file; after an error it is unchanged.

    Raises:
        ContainerError: The file cannot be written.
    """
    with atomic_write(path) as out:
        out.write(msgspec.json.format(msgspec.json.encode(file), indent=1))
