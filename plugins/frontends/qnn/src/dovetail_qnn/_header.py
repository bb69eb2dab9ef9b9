"""Facts about a file: its parts, its producer, and the version and copyright of the model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Header:
    """Facts about a file.

    Attributes:
        cpp: Name of the C++ file, `N/A` if there is none.
        bin: Name of the file of the weights, `NA` if there is none.
        command: The producer and its options.
        version: Version of the model; empty if unknown.
        copyright: Text about its copyright; empty if there is none.
    """

    cpp: str
    bin: str
    command: str
    version: str = ""
    copyright: str = ""
