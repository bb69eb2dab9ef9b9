"""The registry of definitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from dovetail.ir import Array
from dovetail.ops import NodeView
from dovetail_opset import STANDARD

# From stored values of a node's inputs, None for omitted ones, to those of its outputs.
Run = Callable[[Sequence[Array | None]], Sequence[Array]]
Prepare = Callable[[NodeView], Run]
Compute = Callable[[NodeView, Sequence[Array | None]], Sequence[Array]]
Supports = Callable[[NodeView], bool]


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of an op: the arithmetic of its quantized nodes.

    Attributes:
        prepare: Returns the function of a node. Tables and constants are computed here, once.
        supports: Returns whether the definition is for the types and encodings of a node.
    """

    prepare: Prepare
    supports: Supports

    def compute(self, view: NodeView, ins: Sequence[Array | None]) -> Sequence[Array]:
        """Return the stored values of a node's outputs.

        Args:
            view: The node.
            ins: Stored values of its inputs; None for omitted ones.
        """
        return self.prepare(view)(ins)


class Definitions:
    """Definitions by op.

    Args:
        fallback: Definitions of the nodes that these do not define.
    """

    def __init__(self, fallback: Definitions | None = None) -> None:
        self._found: dict[str, Definition] = {}
        self._fallback = fallback

    def defines(self, *op_types: str, supports: Supports) -> Callable[[Compute], Compute]:
        """Register the decorated function of node and inputs as the definition of ops."""

        def register(compute: Compute) -> Compute:
            self.prepares(*op_types, supports=supports)(lambda view: partial(compute, view))
            return compute

        return register

    def prepares(self, *op_types: str, supports: Supports) -> Callable[[Prepare], Prepare]:
        """Register the decorated function, which returns that of a node, for ops."""

        def register(prepare: Prepare) -> Prepare:
            for op_type in op_types:
                if op_type in self._found:
                    raise AssertionError(f"duplicate definition of {op_type}")
                self._found[op_type] = Definition(prepare, supports)
            return prepare

        return register

    def of(self, view: NodeView) -> Definition | None:
        """Return the definition of a node; None if there is none for its op, types or encodings."""
        found = self._found.get(view.op_type) if view.package == STANDARD else None
        if found is not None and found.supports(view):
            return found
        return None if self._fallback is None else self._fallback.of(view)

    @property
    def own(self) -> tuple[str, ...]:
        """The ops defined here, without those of the fallback."""
        return tuple(self._found)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the ops that have a definition."""
        return iter(dict.fromkeys((*self._found, *(self._fallback or ()))))


DEFINITIONS = Definitions()
