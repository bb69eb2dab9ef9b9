"""The table of ops and types: rows of `data/types.json`, see `dovetail_opset.type_tables`.

Source: the data types of the GPU's op definition supplement in the vendor's reference, version
2.25.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.resources import files

import msgspec

from dovetail_opset.type_tables import Row


@functools.cache
def type_rows() -> Mapping[str, tuple[Row, ...]]:
    """Return the rows of each op."""
    content = files("dovetail_gpu").joinpath("data", "types.json").read_bytes()
    found = msgspec.json.decode(content, type=dict[str, list[str]])
    return {op: tuple(map(Row.of, rows)) for op, rows in found.items()}
