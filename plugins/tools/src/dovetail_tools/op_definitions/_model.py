"""Op definitions of QNN's op-package XML, as data."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from dovetail.ir import DType
from dovetail.ops import ShapeText


class Layout(enum.Enum):
    """The layouts of shapes."""

    NHWC = "NHWC"
    NHCW = "NHCW"
    UNDEFINED = "UNDEFINED"
    BACKEND_SPECIFIC = "BACKEND_SPECIFIC"


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint in words.

    Attributes:
        kind: Number, Shape, Value, Datatype or Description.
        text: The text.
        line: Line in the file.
    """

    kind: str
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class ShapeRule:
    """The shape of a tensor or param in a definition.

    Attributes:
        rank: Number of dimensions; None for any.
        layout: Meaning of the dimensions.
        text: As written; may be empty.
        dims: The text as terms, if it is a list of them.
        line: Line in the file.
    """

    rank: int | None
    layout: Layout
    text: str
    dims: ShapeText | None
    line: int


@dataclass(frozen=True, slots=True)
class Tensor:
    """A declared input or output.

    Attributes:
        name: Name.
        description: Description in words.
        is_mandatory: Whether it is required.
        is_repeated: Whether it represents any number of tensors.
        is_static: Whether its data must be known when the graph is composed.
        dtypes: Allowed types; empty for any.
        by_backend: Additional types that supplements allow, by backend.
        shape: Shape; None for any.
        default: Meaning of a missing input, in words.
        constraints: Further constraints in words.
        line: Line in the file.
    """

    name: str
    description: str
    is_mandatory: bool
    is_repeated: bool
    is_static: bool
    dtypes: tuple[DType, ...]
    by_backend: dict[str, tuple[DType, ...]]
    shape: ShapeRule | None
    default: str
    constraints: tuple[Constraint, ...]
    line: int

    @property
    def all_dtypes(self) -> tuple[DType, ...]:
        """Types that the definition or any backend allows; empty for any type."""
        return _union(self.dtypes, self.by_backend)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A declared param.

    Attributes:
        name: Name.
        description: Description in words.
        is_mandatory: Whether a node must have it.
        dtypes: Allowed types, the preferred one first.
        by_backend: As for a tensor.
        only_default: Backends that support only the default.
        shape: Shape; a scalar has rank 0.
        default: Default value as text; empty for none.
        choices: Names of an enumeration, numbered from 0.
        constraints: Further constraints in words.
        line: Line in the file.
    """

    name: str
    description: str
    is_mandatory: bool
    dtypes: tuple[DType, ...]
    by_backend: dict[str, tuple[DType, ...]]
    only_default: tuple[str, ...]
    shape: ShapeRule | None
    default: str
    choices: tuple[str, ...]
    constraints: tuple[Constraint, ...]
    line: int

    @property
    def is_scalar(self) -> bool:
        """True if the param is a single value."""
        return self.shape is None or self.shape.rank == 0

    @property
    def all_dtypes(self) -> tuple[DType, ...]:
        """Types that the definition or any backend allows; UINT_32 by default."""
        return _union(self.dtypes, self.by_backend) or (DType.UINT_32,)


@dataclass(frozen=True, slots=True)
class OpDefinition:
    """The definition of an op.

    Attributes:
        name: Name of the op.
        description: Description in words.
        code: Code or formula of the description.
        references: Sources, each with its address.
        inputs, outputs, params: The ports and params.
        backends: Backends that support the op.
        uses_default_translation: Whether the SDK's converters translate the op by default.
        line: Line in the file.
    """

    name: str
    description: str
    code: str
    references: tuple[tuple[str, str], ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    params: tuple[Parameter, ...]
    backends: tuple[str, ...]
    uses_default_translation: bool
    line: int


@dataclass(frozen=True, slots=True)
class Definitions:
    """The op definitions of a file.

    Attributes:
        package: Name of the op package.
        domain: Name of the package's domain; may be empty.
        version: Version of the package.
        ops: The ops, in order.
        file: Path of the file.
    """

    package: str
    domain: str
    version: str
    ops: tuple[OpDefinition, ...]
    file: str


def _union(
    dtypes: tuple[DType, ...], by_backend: dict[str, tuple[DType, ...]]
) -> tuple[DType, ...]:
    added = (dtype for supplement in by_backend.values() for dtype in supplement)
    return tuple(dict.fromkeys((*dtypes, *added)))
