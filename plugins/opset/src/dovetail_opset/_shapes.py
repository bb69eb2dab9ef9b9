"""Shape and type rules that several ops share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from msgspec.structs import replace

from dovetail.errors import OpError
from dovetail.ir import Array, DType, ScaleOffset, Shape, Spec
from dovetail.ops import Specs


def ints(values: Array | Iterable[int]) -> tuple[int, ...]:
    """Return a one-dimensional tensor param as Python ints, which do not wrap around."""
    if isinstance(values, np.ndarray):
        values = values.tolist()
    return tuple(map(int, values))


def elements(x: Spec | None) -> int:
    """Return the number of elements of a tensor, 0 if it is omitted."""
    return 0 if x is None else math.prod(x.shape)


def rows(x: Spec | None) -> int:
    """Return the number of rows of a tensor along its last axis, 0 if it is omitted."""
    return 0 if x is None else math.prod(x.shape[:-1])


def first_rank(ins: Specs) -> int:
    """Return the rank of the first input, 0 if it is omitted."""
    return len(ins[0].shape) if ins and ins[0] is not None else 0


def computed(x: Spec, shape: Sequence[int], out: Spec | None) -> Spec:
    """Return the spec of a result computed from `x`.

    It has the type of `x`; between fixed-point types the graph may declare another width, and it
    always declares the encoding.
    """
    if out is None:
        return Spec(x.dtype, tuple(shape))
    both_fixed = x.dtype.is_fixed_point and out.dtype.is_fixed_point
    return Spec(out.dtype if both_fixed else x.dtype, tuple(shape), out.encoding)


def moved(x: Spec, shape: Sequence[int], out: Spec | None) -> Spec:
    """Return the spec of a result whose elements are moved from `x`, with its encoding."""
    found = computed(x, shape, out)
    if out is None and isinstance(x.encoding, ScaleOffset):
        return replace(found, encoding=x.encoding)
    return found


def truth(shape: Sequence[int], out: Spec | None) -> Spec:
    """Return the spec of a truth value: BOOL_8, or a type that holds 1 and 0.

    Raises:
        OpError: The graph declares a float type for it.
    """
    if out is None:
        return Spec(DType.BOOL_8, tuple(shape))
    if out.dtype.is_float:
        raise OpError(
            f"out[0] must be BOOL_8, an integer or a fixed-point type, but it is declared "
            f"{out.dtype.name}"
        )
    return Spec(out.dtype, tuple(shape), out.encoding)


def broadcast(*shapes: Shape) -> Shape:
    """Return the shape to which shapes broadcast.

    Raises:
        OpError: They do not broadcast.
    """
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = " and ".join(map(str, shapes))
        raise OpError(f"shapes {listed} do not broadcast") from None


def need_rank(x: Spec, rank: int, what: str) -> None:
    """Raise if a tensor's rank differs.

    Raises:
        OpError: It differs.
    """
    if len(x.shape) != rank:
        raise OpError(f"{what} must have rank {rank}, but its shape is {x.shape}")


def need_shape(x: Spec | None, shape: Shape, what: str) -> None:
    """Raise if the shape of a tensor that is given differs.

    Raises:
        OpError: It differs.
    """
    if x is not None and x.shape != shape:
        raise OpError(f"{what} must have shape {shape}, but its shape is {x.shape}")


def need_axis(axis: int, rank: int, name: str = "axis") -> int:
    """Return an axis after checking it.

    Raises:
        OpError: A tensor of this rank has no such axis.
    """
    if not 0 <= axis < rank:
        raise OpError(f"{name} {axis} is not an axis of a tensor of rank {rank}")
    return axis


def need_axes(axes: Array, rank: int) -> tuple[int, ...]:
    """Return the values of an `axes` param.

    Raises:
        OpError: A value is not an axis, or occurs twice.
    """
    found = ints(axes)
    for axis in found:
        need_axis(axis, rank, "axes:")
    if len(set(found)) < len(found):
        raise OpError(f"axes {found} contain an axis twice")
    return found


def need_same_type(*specs: Spec) -> None:
    """Raise if inputs have different types; fixed-point types may differ from each other.

    Raises:
        OpError: The types differ.
    """
    dtypes = {s.dtype for s in specs}
    if len(dtypes) > 1 and not all(d.is_fixed_point for d in dtypes):
        names = " and ".join(s.dtype.name for s in specs)
        raise OpError(f"the inputs have different types: {names}")


def need_float(x: Spec, what: str) -> None:
    """Raise if a tensor holds integers or bools, for ops with fractional results.

    Raises:
        OpError: The type is neither a float nor a fixed-point type.
    """
    if not (x.dtype.is_float or x.dtype.is_fixed_point):
        raise OpError(f"{what} must be float or fixed-point, but is {x.dtype.name}")


def need_encoding(x: Spec, what: str) -> None:
    """Raise if a fixed-point tensor has no encoding, for ops that need its real values.

    Raises:
        OpError: The tensor has none.
    """
    if x.dtype.is_fixed_point and x.encoding is None:
        raise OpError(f"{what} is {x.dtype.name} but has no encoding", hint="give it a scale")


def need_numbers(*specs: Spec) -> None:
    """Raise if an input of an op that computes with numbers is BOOL_8.

    Raises:
        OpError: An input is BOOL_8.
    """
    for i, spec in enumerate(specs):
        if spec.dtype is DType.BOOL_8:
            raise OpError(
                f"in[{i}] must be a number, but is BOOL_8",
                hint="cast it to an integer or float type first",
            )
