"""The registry of definitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dovetail.ir import Array
from dovetail.ops import NodeView

PACKAGE = "qti.aisw"

# From a node and the stored values of its inputs, None for omitted ones, to those of its outputs.
Compute = Callable[[NodeView, Sequence[Array | None]], Sequence[Array]]
Supports = Callable[[NodeView], bool]


@dataclass(frozen=True, slots=True)
class Definition:
    """The arithmetic of a quantized node.

    Attributes:
        compute: Returns the stored values of the outputs.
        supports: Returns whether the definition is for the types and encodings of a node.
    """

    compute: Compute
    supports: Supports


class Definitions:
    """Definitions by op."""

    def __init__(self) -> None:
        self._found: dict[str, Definition] = {}

    def defines(self, *op_types: str, supports: Supports) -> Callable[[Compute], Compute]:
        """Register the decorated function as the definition of ops; see `Definition`."""

        def register(compute: Compute) -> Compute:
            for op_type in op_types:
                if op_type in self._found:
                    raise AssertionError(f"duplicate definition of {op_type}")
                self._found[op_type] = Definition(compute, supports)
            return compute

        return register

    def of(self, view: NodeView) -> Definition | None:
        """Return the definition of a node; None if there is none for its op, types or encodings."""
        found = self._found.get(view.op_type) if view.package == PACKAGE else None
        return found if found is not None and found.supports(view) else None

    def __iter__(self) -> Iterator[str]:
        """Iterate over the ops that have a definition."""
        return iter(self._found)


DEFINITIONS = Definitions()
