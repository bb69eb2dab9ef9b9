"""Functions of one tensor: tables of all stored integers.

An entry is the function of the real value in float64, by the op's own reference, settled and
rounded once; see `stored_of`. Floor, ceil and round read the real value as a float32, which is what
a float run would read: 5 times the float32 nearest to 0.1 is one half. Hard swish of 16 bits has a
float32 formula; see `HardSwish`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from dovetail.ir import Array, DType, Encoding, Spec
from dovetail.ops import NodeView
from dovetail_numpy.integer.definitions import DEFINITIONS, Run
from dovetail_numpy.integer.grid import (
    is_defined,
    is_fixed,
    is_single,
    is_tabular,
    real_of,
    single_of,
    stored_of,
)
from dovetail_numpy.integer.rescaling import LARGEST_FACTOR, LARGEST_MULTIPLIER, grid_of
from dovetail_opset.families import FAMILIES

FUNCTIONS = tuple(op for op in (*FAMILIES["activation"], *FAMILIES["unary"]) if op != "Prelu")

_STEPS = ("ElementWiseCeil", "ElementWiseFloor", "ElementWiseRound")
_BYTE = 8  # bits
# With it, too, no rounding of the formula of hard swish moves a result by more than an eighth of a
# step; see `LARGEST_FACTOR`.
_SMALLEST_SLOPE = 2.0**-22

Grid = tuple[DType, Encoding | None]
Function = Callable[[Array], Array]


@dataclass(frozen=True, slots=True)
class HardSwish:
    """The numbers of a hard swish of 16 bits; engines compute its formula after a sum.

        y = level * factor,  h = clip(y * slope + 1/2, 0, 1),  q = clip(rint(y * h + target_zero))

    Each operation is rounded to float32, none is fused with another.

    Attributes:
        factor: Steps of the result in a level of the input.
        slope: A sixth of the result's scale.
        zero: Zero point of the input.
        target: Type of the result.
        target_zero: Zero point of the result.
        limits: Minimum and maximum stored integer of the result.
    """

    factor: np.float32
    slope: np.float32
    zero: int
    target: DType
    target_zero: int
    limits: tuple[int, int]

    @classmethod
    def of(cls, view: NodeView) -> HardSwish | None:
        """Return those of a node; None for other functions, and if it is computed in float64.

        That is so of 8 bits alone, where float32 does not hold all levels, and where scales are so
        extreme that roundings would show or a product overflow.
        """
        source, target = view.ins[0], view.outs[0]
        if function_name(view) != "HardSwish" or source is None:
            return None
        if not (is_single(source) and is_single(target)):
            return None
        (scale, zero, _), (step, target_zero, limits) = grid_of(source), grid_of(target)
        factor, slope = scale / step, step / 6
        are_bytes = max(source.dtype.bits, target.dtype.bits) <= _BYTE
        is_usual = factor <= LARGEST_FACTOR and _SMALLEST_SLOPE <= slope <= LARGEST_MULTIPLIER
        if are_bytes or not is_usual:
            return None
        return cls(np.float32(factor), np.float32(slope), zero, target.dtype, target_zero, limits)

    def apply(self, stored: Array) -> Array:
        """Return the stored results of stored integers."""
        y = (stored.astype(np.int32) - self.zero).astype(np.float32) * self.factor
        v = y * np.clip(y * self.slope + np.float32(0.5), 0, 1) + np.float32(self.target_zero)
        return np.asarray(np.clip(np.rint(v), *self.limits), self.target.storage)


@dataclass(frozen=True, slots=True)
class TableKey:
    """The content of a table, and how to compute it.

    Attributes:
        function: Name and params of the function.
        source, target: Types and encodings.
        make: Returns the stored results of stored integers.
    """

    function: Hashable
    source: Grid
    target: Grid
    make: Function = field(compare=False)


def look_up(table: Array, stored: Array) -> Array:
    """Return the entries of stored integers, any shape.

    Args:
        table: One entry for each bit pattern, in the order of unsigned integers.
        stored: Integers of 8 or 16 bits, as many as the table has entries for.
    """
    return np.asarray(np.take(table, stored.view(f"u{stored.itemsize}")))


@lru_cache(maxsize=128)
def made_table(key: TableKey) -> Array:
    """Return a table, read-only; equal ones are computed once."""
    storage = key.source[0].storage
    every = np.arange(1 << 8 * storage.itemsize, dtype=f"u{storage.itemsize}")
    table = key.make(every.view(storage))
    table.flags.writeable = False
    return table


def grid_key(spec: Spec) -> Grid:
    """Return the type and encoding of a tensor, which determine its real values."""
    return spec.dtype, spec.encoding


def function_name(view: NodeView) -> str:
    """Return the name of a node's function: that of a single op where a param selects it."""
    single = getattr(view.op, "single", None)
    return view.op_type if single is None else type(single).__name__


def params_key(view: NodeView) -> Hashable:
    """Return the op and the params of a node."""
    params = sorted(vars(view.op).items())
    return view.op_type, tuple((name, _hashable(value)) for name, value in params)


def _hashable(value: object) -> Hashable:
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    return value if isinstance(value, Hashable) else repr(value)


def function_table(view: NodeView) -> Array | None:
    """Return the table of a node with one input and one output, None if it needs too many entries.

    Returns:
        (256,) or (65536,), stored values of the output by bit pattern of the input; see `look_up`.
    """
    x, out = view.ins[0], view.outs[0]
    if x is None or not is_tabular(x):
        return None
    return made_table(TableKey(params_key(view), grid_key(x), grid_key(out), _function(view)))


def _supports(view: NodeView) -> bool:
    return is_fixed(view.ins[0]) and is_defined(view)


@DEFINITIONS.prepares(*FUNCTIONS, supports=_supports)
def unary(view: NodeView) -> Run:
    """Look up a function of one tensor; with several scales or 32 bits it is computed."""
    table = function_table(view)
    function = _function(view)

    def run(ins: Sequence[Array | None]) -> Sequence[Array]:
        (x,) = ins
        if x is None:
            raise AssertionError(f"{view.node.where} lacks its input")
        return [function(x) if table is None else look_up(table, x)]

    return run


def _function(view: NodeView) -> Function:
    schema, op = view.definition
    x, out = view.spec(0), view.outs[0]
    is_stepped = function_name(view) in _STEPS
    if (hard_swish := HardSwish.of(view)) is not None:
        return hard_swish.apply

    def function(stored: Array) -> Array:
        real = real_of(stored, x)
        if is_stepped:
            real = single_of(real)
        (result,) = schema.reference(op, [real], view.outs)
        return stored_of(result, out, settled=True)

    return function
