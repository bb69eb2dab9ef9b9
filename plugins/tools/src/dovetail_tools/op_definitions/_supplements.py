"""Supplements: additions of a backend to the definition of an op."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.ir import DType
from dovetail_tools.op_definitions._model import Constraint, ShapeRule


@dataclass(frozen=True, slots=True)
class SupplementPort:
    """The supplement of an input, output or param.

    Attributes:
        dtypes: Types that the backend allows.
        shape: Shapes that the backend allows.
        only_default: Whether the backend supports only the default of a param.
        constraints: Further constraints in words.
        line: Line in the file.
    """

    dtypes: tuple[DType, ...]
    shape: ShapeRule | None
    only_default: bool
    constraints: tuple[Constraint, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Supplement:
    """The supplement of an op.

    Attributes:
        backend: Name of the backend.
        op: Name of the op.
        line: Line in the file.
        ports: Supplements by side (`in`, `out`, `param`) and name; empty if the backend only states
            its support of the op.
    """

    backend: str
    op: str
    line: int
    ports: dict[tuple[str, str], SupplementPort]

    def only_default(self, param: str) -> bool:
        """Return whether the backend supports only the default of a param."""
        port = self.ports.get(("param", param))
        return port is not None and port.only_default
