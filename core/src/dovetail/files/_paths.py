"""Names and paths of files: contained, safe, with a suffix; errors of those that fail."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from dovetail.errors import ConfigError, ContainerError, DovetailError, FrontendError

PathLike = str | os.PathLike[str]

_UNSAFE = r"[^A-Za-z0-9_.-]"
_NOT_IN_C = r"[^A-Za-z0-9_]"


def contained(folder: Path, relative: str, *, error: type[DovetailError] = FrontendError) -> Path:
    """Return the path of a file that must be in `folder`; links are followed.

    Raises:
        DovetailError: Of class `error`: the path leaves the folder.
    """
    root = Path(os.path.realpath(folder))
    path: Path | None = None
    with suppress(ValueError):  # NUL, or half a surrogate pair
        path = Path(os.path.realpath(root / relative))
    if path is None or not path.is_relative_to(root):
        raise error(
            f"{relative!r} leads outside the folder of the file that names it",
            where=str(folder),
            hint="a file may refer only to files in its own folder or below",
        )
    return path


def check_suffix(path: Path, suffix: str, what: str, option: str) -> None:
    """Raise if the name of a file to be written has the wrong suffix.

    Args:
        path: The name.
        suffix: With its dot, in lower case.
        what: Beginning of the message: what is written to the file.
        option: The option that set the name.

    Raises:
        ConfigError: The name has another suffix, or does not name a file (`.`, `..`, `/`).
    """
    if path.suffix.lower() == suffix:
        return
    better = with_suffix(path, suffix)
    raise ConfigError(
        f"{what}, and the suffix must be {suffix}",
        code="USAGE",
        where=f"{option} {path}",
        hint=f"use {option} {path / f'NAME{suffix}' if better is None else better}",
    )


def with_suffix(path: Path, suffix: str) -> Path | None:
    """Return a path with another suffix; None if it does not end in a name."""
    return path.with_suffix(suffix) if path.name.strip(".") else None


def safe_name(name: str) -> str:
    """Return a tensor's name as the SDK's tools write it: `_` replaces all but [A-Za-z0-9_.-]."""
    safe = re.sub(_UNSAFE, "_", name)
    return f"_{safe[1:]}" if safe.startswith(".") else safe


def identifier(name: str) -> str:
    """Return a tensor's or node's name as QNN's converters write it: an identifier of C.

    Source: docs/qnn_formats.md, "Names".
    """
    plain = re.sub(_NOT_IN_C, "_", name)
    return f"_{plain}" if not plain or plain[0].isdigit() else plain


def unwritable(path: Path, error: OSError) -> DovetailError:
    """Return the error for a file or folder that cannot be written."""
    return ContainerError(
        f"cannot be written: {error.strerror or error}",
        code="FILE_UNWRITABLE",
        where=str(path),
        hint="check that the folder exists, is writable and has free space",
    )


def unreadable(path: Path, error: OSError) -> DovetailError:
    """Return the error for a file that cannot be read."""
    return FrontendError(
        f"cannot be read: {error.strerror or error}", code="FILE_UNREADABLE", where=str(path)
    )
