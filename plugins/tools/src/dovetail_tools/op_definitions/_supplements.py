"""What one backend adds to the definition of an op."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.ir import DType
from dovetail_tools.op_definitions._model import Constraint, ShapeRule


@dataclass(frozen=True, slots=True)
class SupplementPort:
    """What a backend says of an input, output or param.

    Attributes:
        dtypes: Types that it allows.
        shape: Shapes that it allows.
        only_default: Whether a param may have its default only.
        constraints: Further demands in words.
        line: Where it stands.
    """

    dtypes: tuple[DType, ...]
    shape: ShapeRule | None
    only_default: bool
    constraints: tuple[Constraint, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Supplement:
    """What a backend says of an op.

    Attributes:
        backend: Its name.
        op: The op's name.
        line: Where it stands.
        ports: By side (`in`, `out`, `param`) and name; none where it only says that it has the op.
    """

    backend: str
    op: str
    line: int
    ports: dict[tuple[str, str], SupplementPort]

    def only_default(self, param: str) -> bool:
        """Return whether the backend supports a param's default alone."""
        port = self.ports.get(("param", param))
        return port is not None and port.only_default
