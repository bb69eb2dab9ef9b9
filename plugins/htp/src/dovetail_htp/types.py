"""The op and type tables: rows of `data/types.json`, in the form of `dovetail_opset.type_tables`.

Source: the data types of the op definition supplements of the vendor's reference, version 2.25.
"""

from __future__ import annotations

import functools

from dovetail_htp._data import read_data
from dovetail_opset.type_tables import Row


@functools.cache
def _file() -> dict[str, dict[str, list[str]]]:
    return read_data("types.json", dict[str, dict[str, list[str]]])


def ops(table: str) -> tuple[str, ...]:
    """Return the sorted names of the ops of a table."""
    return tuple(_file()[table])


@functools.cache
def rows(table: str, op_type: str) -> tuple[Row, ...]:
    """Return the rows of an op; empty if the table does not have it."""
    return tuple(Row.of(text) for text in _file()[table].get(op_type, ()))
