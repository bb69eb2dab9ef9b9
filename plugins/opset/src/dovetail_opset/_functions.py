"""Ops whose meaning is one function of NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

from dovetail.ops import Op
from dovetail_opset._package import PACKAGE

Row: TypeAlias = tuple[str, Callable[..., Any], str]


def register_functions(base: type[Op], closing: str, *rows: Row, **facts: object) -> None:
    """Register an op for each row of name, function of the inputs, and docstring.

    Args:
        base: Their base class: ports, shape rule, and a `reference` that calls `function`.
        closing: The last sentence of each docstring.
        rows: The ops.
        facts: What all of them state for quantization; see `Op`.
    """
    for name, function, doc in rows:
        members = {
            "__doc__": f"{doc} {closing}",
            "__module__": base.__module__,
            "function": staticmethod(function),
            **facts,
        }
        PACKAGE.op(name)(cast(type[Op], type(name, (base,), members)))
