"""An entry of the catalogue of codes."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """One code of the catalogue.

    Attributes:
        name: Symbolic name.
        exit_code: Exit status of a command that ends with the error.
        meaning: What happened, in one sentence.
        remedy: What usually helps.
        number: QNN's number, for codes of the runtime API.
    """

    name: str
    exit_code: int
    meaning: str
    remedy: str
    number: int | None = None
