"""Op cases: inputs, params and the answer, as data. What runs them is elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dovetail.ir import Array, DType, Encoding, Spec

Expected = Callable[..., Any]


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """A tensor that is given as it is stored.

    Attributes:
        values: Stored values, dtype `dtype.storage`, any shape.
        dtype: Their type.
        encoding: For fixed-point types.
    """

    values: Array
    dtype: DType
    encoding: Encoding | None = None

    @property
    def spec(self) -> Spec:
        """Its type, shape and encoding."""
        return Spec(self.dtype, self.values.shape, self.encoding)


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A later call of a case's node, for ops that remember.

    Attributes:
        inputs: As those of the case, of the same types and shapes; those in the graph stay.
        expected: What this call must give.
    """

    inputs: tuple[Array | Encoded | None, ...]
    expected: Expected | Array | tuple[Array, ...]


@dataclass(frozen=True, slots=True, eq=False)
class OpCase:
    """One node, what it is given, and what it must give.

    The answer is plain NumPy, written out independently of the op's reference: an array, a tuple of
    them, or a function of the inputs' real values that gives these. With a function the case can
    also be run in other types, see `typed`. Of an op that draws numbers it is the middle of what
    `atol` allows.

    Attributes:
        op_type: Name of the op.
        inputs: In the op's order. An array is of the plain type that NumPy says; None leaves an
            optional input out.
        expected: The outputs' real values; float ones are stored as the first float input is.
        params: By name: numbers, enum members, array-likes.
        name: What is particular about the case; unique among the cases of an op.
        package: Name of the op package.
        outputs: Declared specs of the outputs, where the answer's own types are not meant.
        static: Positions of the inputs that belong to the graph, as weights do.
        dtype: Type that float inputs and outputs are stored as instead of their own; fixed-point
            encodings are taken from their values.
        rtol, atol: Tolerances for float outputs. The defaults are for results of a few roundings
            in float32; `typed` widens them for narrower types.
        steps: How many steps a fixed-point output may be off, since a backend that computes in
            integers rounds elsewhere than the answer does.
        later_calls: Later calls on the same prepared graph, in order.
    """

    op_type: str
    inputs: tuple[Array | Encoded | None, ...]
    expected: Expected | Array | tuple[Array, ...]
    params: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    package: str = "qti.aisw"
    outputs: tuple[Spec, ...] = ()
    static: tuple[int, ...] = ()
    dtype: DType | None = None
    rtol: float = 1e-5
    atol: float = 1e-6
    steps: int = 0
    later_calls: tuple[Call, ...] = ()

    @property
    def op_name(self) -> str:
        """`package::op_type`."""
        return f"{self.package}::{self.op_type}"

    @property
    def id(self) -> str:
        """Name the case within the package."""
        parts = (self.op_type, self.name, self.dtype.name if self.dtype else "")
        return "-".join(part.replace(" ", "_") for part in parts if part)


# Relative error of one rounding. Backends may also sum in these types, so sixteen are allowed.
_ROUNDING = {DType.FLOAT_16: 2.0**-11, DType.BFLOAT_16: 2.0**-8}
_ROUNDINGS = 16


def typed(case: OpCase, *dtypes: DType, steps: int = 1) -> tuple[OpCase, ...]:
    """Return a case with its float tensors stored as other types, one copy for each.

    Args:
        case: Its answer must be a function: it is asked again for the values as they are stored.
        dtypes: The types.
        steps: How many steps fixed-point outputs may be off.

    Raises:
        TypeError: The answer is not a function.
    """
    if not callable(case.expected):
        raise TypeError(f"case {case.id} gives an answer for its own types only")
    made = []
    for dtype in dtypes:
        error = _ROUNDING.get(dtype, 0.0) * _ROUNDINGS
        rtol, atol = max(case.rtol, error), max(case.atol, error)
        made.append(replace(case, dtype=dtype, rtol=rtol, atol=atol, steps=steps))
    return tuple(made)
