"""Files of the cache: they are optional, and a failure to write one is no fault."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

from dovetail.errors import ConfigError, DovetailError
from dovetail.files import atomic_write, user_cache

_LOG = logging.getLogger("dovetail.gpu")
_DIGEST_BYTES = 32


def cache_folder(given: str | None) -> Path | None:
    """Return the folder of compiled programs and tuning; None if nothing is kept.

    Args:
        given: The folder that the options name.

    Raises:
        ConfigError: That folder cannot be created, or the name is empty.
    """
    if given is None:
        return user_cache("opencl")
    try:
        if not given:  # a path of no text is the working folder
            raise ValueError("the name is empty")
        folder = Path(given)
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # ValueError: also a NUL character
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"the folder {given[:200]!r} cannot be created: {reason}",
            where="kernel_repo_path",
            hint="name a folder, or leave the option out to use the user's cache",
        ) from error
    return folder


def sealed(content: bytes) -> bytes:
    """Return content after its digest, by which damage is found."""
    return hashlib.sha256(content).digest() + content


def unsealed(file: bytes) -> bytes | None:
    """Return the content of a sealed file; None if it is damaged."""
    content = file[_DIGEST_BYTES:]
    return content if hashlib.sha256(content).digest() == file[:_DIGEST_BYTES] else None


def keep(path: Path, content: bytes) -> None:
    """Write a file of the cache, and log a warning if that fails."""
    try:
        with atomic_write(path) as file:
            file.write(content)
    except DovetailError as error:
        _LOG.warning("the cache cannot be written: %s", error)
