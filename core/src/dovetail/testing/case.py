"""Op cases: inputs, params and expected outputs as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from dovetail.ir import Array, DType, Encoding, Spec

Expected = Callable[..., Any]


class Encoded(msgspec.Struct, frozen=True, eq=False):
    """A tensor in its stored form.

    Attributes:
        values: Stored values, dtype `dtype.storage`, any shape.
        dtype: Type of the tensor.
        encoding: For fixed-point types.
    """

    values: Array
    dtype: DType
    encoding: Encoding | None = None

    @property
    def spec(self) -> Spec:
        """Its type, shape and encoding."""
        return Spec(self.dtype, self.values.shape, self.encoding)


class Call(msgspec.Struct, frozen=True, eq=False):
    """A later call of a case's node, for ops with state.

    Attributes:
        inputs: Inputs of the same types and shapes as those of the case; static ones stay.
        expected: Expected outputs of this call.
    """

    inputs: tuple[Array | Encoded | None, ...]
    expected: Expected | Array | tuple[Array, ...]


class OpCase(msgspec.Struct, frozen=True, eq=False):
    """A node with its inputs and expected outputs.

    The expected outputs are plain NumPy, independent of the op's reference: an array, a tuple of
    arrays, or a function of the inputs' real values that returns these. With a function the case
    can also run with other types, see `typed`. For an op that draws random numbers, they are the
    middle of the range that `atol` allows.

    Attributes:
        op_type: Name of the op.
        inputs: In the op's order. An array has the plain type of its NumPy dtype; None omits an
            optional input.
        expected: Real values of the outputs; floats are stored like the first float input.
        params: By name: numbers, enum members, array-likes.
        name: Short description of the case, unique among the cases of an op.
        package: Name of the op package.
        outputs: Declared specs of the outputs, if they differ from the types of `expected`.
        static: Indices of the inputs that are constants of the graph, such as weights.
        dtype: Type that replaces that of float inputs and outputs; fixed-point encodings are
            derived from their values.
        rtol, atol: Tolerances for float outputs. The defaults suit a few roundings in float32;
            `typed` increases them for narrower types.
        steps: Tolerance for fixed-point outputs in quantization steps, since a backend that
            computes in integers rounds differently.
        later_calls: Later calls on the same prepared graph, in order.
    """

    op_type: str
    inputs: tuple[Array | Encoded | None, ...]
    expected: Expected | Array | tuple[Array, ...]
    params: Mapping[str, Any] = msgspec.field(default_factory=dict)
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
        """Name of the case within the package."""
        parts = (self.op_type, self.name, self.dtype.name if self.dtype else "")
        return "-".join(part.replace(" ", "_") for part in parts if part)


# Relative error of one rounding. Backends may also sum in these types, so 16 are allowed.
_ROUNDING = {DType.FLOAT_16: 2.0**-11, DType.BFLOAT_16: 2.0**-8}
_ROUNDINGS = 16


def typed(case: OpCase, *dtypes: DType, steps: int = 1) -> tuple[OpCase, ...]:
    """Return copies of a case with its float tensors stored as other types, one for each type.

    Args:
        case: The case. `expected` must be a function: it is called again for the stored values.
        dtypes: The types.
        steps: Tolerance for fixed-point outputs in quantization steps.

    Raises:
        TypeError: `expected` is not a function.
    """
    if not callable(case.expected):
        raise TypeError(f"the expected outputs of case {case.id} are not a function")
    made = []
    for dtype in dtypes:
        error = _ROUNDING.get(dtype, 0.0) * _ROUNDINGS
        rtol, atol = max(case.rtol, error), max(case.atol, error)
        made.append(replace(case, dtype=dtype, rtol=rtol, atol=atol, steps=steps))
    return tuple(made)
