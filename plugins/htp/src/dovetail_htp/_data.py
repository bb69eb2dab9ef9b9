"""The data files of this package."""

from __future__ import annotations

from importlib.resources import files
from typing import TypeVar

import msgspec

T = TypeVar("T")


def read_data(name: str, to: type[T]) -> T:
    """Return the content of a JSON file of this package.

    Args:
        name: Name of the file.
        to: Its type.
    """
    return msgspec.json.decode(files("dovetail_htp").joinpath("data", name).read_bytes(), type=to)
