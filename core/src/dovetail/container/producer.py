"""Producer: the program that created a container, and its source."""

# Annotations stay types: msgspec would compile texts at each start of a process (ADR 39).

import hashlib
import os
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from dovetail.files import open_regular, unreadable

Sha256 = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
FileName = Annotated[str, Meta(pattern=r"\A[^/\x00]+\Z")]


class Producer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The program that created a container, and its source.

    Attributes:
        tool: Name of the program.
        version: Its version.
        source: Name of the source model file, without folders.
        source_sha256: SHA-256 of that file in hex.
        options: The program's options, as text. No time, host or path: files are reproducible.
    """

    tool: str
    version: str
    source: FileName | None = None
    source_sha256: Sha256 | None = None
    options: dict[str, str] = {}


def hash_source(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a model file in hex, for `Producer.source_sha256`.

    Raises:
        FrontendError: The file cannot be read.
    """
    try:
        with open_regular(Path(path)) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise unreadable(Path(path), error) from error
