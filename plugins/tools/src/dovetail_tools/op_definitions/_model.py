"""Op definitions as QNN's op-package XML states them."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from dovetail.ir import DType
from dovetail_tools.op_definitions._shapes import ShapeText


class Layout(enum.Enum):
    """Layouts that a shape may name."""

    NHWC = "NHWC"
    NHCW = "NHCW"
    UNDEFINED = "UNDEFINED"
    BACKEND_SPECIFIC = "BACKEND_SPECIFIC"


@dataclass(frozen=True, slots=True)
class Constraint:
    """What a definition demands in words.

    Attributes:
        kind: Number, Shape, Value, Datatype or Description.
        text: The words.
        line: Where it stands.
    """

    kind: str
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class ShapeRule:
    """What a definition says of a shape.

    Attributes:
        rank: Number of dimensions; None for any.
        layout: Meaning of the dimensions.
        text: As written; may be empty.
        dims: The text as terms, where it is a list of them.
        line: Where it stands.
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
        name: Its name.
        description: In words.
        is_mandatory: Whether it must be there.
        is_repeated: Whether it stands for any number of tensors.
        is_static: Whether its data must be known when the graph is made.
        dtypes: Allowed types; empty for any.
        by_backend: Types that a supplement allows a backend, by its name.
        shape: What is said of its shape.
        default: What a left-out input means, in words.
        constraints: Further demands in words.
        line: Where it stands.
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
        name: Its name.
        description: In words.
        is_mandatory: Whether a node must give it.
        dtypes: Allowed types, the usual one first.
        by_backend: As for a tensor.
        only_default: Backends that support the default alone.
        shape: What is said of its shape; a scalar has rank 0.
        default: Its value as text; empty for none.
        choices: Names of an enumeration, numbered from 0.
        constraints: Further demands in words.
        line: Where it stands.
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
        """Whether it is one value."""
        return self.shape is None or self.shape.rank == 0

    @property
    def all_dtypes(self) -> tuple[DType, ...]:
        """Types that the definition or any backend allows; UINT_32 by default."""
        return _union(self.dtypes, self.by_backend) or (DType.UINT_32,)


@dataclass(frozen=True, slots=True)
class OpDefinition:
    """An op.

    Attributes:
        name: Its name.
        description: In words.
        code: Code or formula of the description.
        references: Where it comes from: source and address.
        inputs, outputs, params: What it is made of.
        backends: Backends that are to support it.
        uses_default_translation: Whether the SDK's converters would translate it by themselves.
        line: Where it stands.
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
    """A file of op definitions.

    Attributes:
        package: Name of the op package.
        domain: Name of the package's domain; may be empty.
        version: Of the package.
        ops: In order.
        file: Where they stand.
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
