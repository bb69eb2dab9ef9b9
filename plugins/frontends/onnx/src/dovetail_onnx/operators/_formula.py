"""Formulas: Python's operators and the functions here apply ONNX's operators to values of a node.

For example, `x = operand(op, 0)` and then `return (sin(x) / cos(x)).emit()`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dovetail.ir import DType, Shape, Spec, Tensor
from dovetail_onnx._context import OpContext
from dovetail_onnx._dtypes import ELEMENT_TYPES
from dovetail_onnx.operators._parts import apply_operator, constant
from dovetail_opset.importing.constant import Constant, Value

# Adds the last operator of a formula: as an intermediate value of a name, or as an output.
_Add = Callable[[str, int | None], Value]


def _function(op_type: str) -> Callable[[Expr], Expr]:
    return lambda x: x.apply(op_type)


def _infix(op_type: str) -> Callable[[Expr, Operand], Expr]:
    return lambda x, y: x.apply(op_type, y)


def _reflected(op_type: str) -> Callable[[Expr, Operand], Expr]:
    """Return the method for a number before the operator."""
    return lambda x, y: x.expr(y).apply(op_type, x)


class Expr:
    """A value in a formula; computed at import if all that it depends on is known.

    Its operator is added when the value is used: by `emit` under the name of the node's output,
    else as an intermediate value, named after the operator. Numbers become constants of the type
    of the value that they are combined with.

    Args:
        op: The node that the formula belongs to.
        value: The value; or the function that adds its operator.
        name: Name of an intermediate value, after the node's.
    """

    __array_ufunc__ = None  # an array before an operator leaves it to the methods here

    def __init__(self, op: OpContext, value: Value | _Add, name: str = "") -> None:
        self._op = op
        self._add = value if callable(value) else None
        self._value = None if callable(value) else value
        self._name = name

    def named(self, name: str) -> Expr:
        """Set the name that the value has as an intermediate one; return the value."""
        self._name = name
        return self

    def emit(self, output: int | None = 0) -> Value:
        """Return the value, written as an output of the node unless that is None.

        It must be used nowhere before, nor asked for its type or shape; an input stays as it is.
        """
        if self._value is None:
            assert self._add is not None
            self._value = self._add(self._name, output)
        elif output is not None and self._add is not None:
            raise AssertionError(f"'{self._name}' of {self._op.node.where} was used before")
        return self._value

    @property
    def value(self) -> Value:
        """The value as an intermediate one."""
        return self.emit(None)

    @property
    def tensor(self) -> Tensor:
        """The value as a tensor of the graph."""
        return self._op.as_tensor(self.value)

    @property
    def dtype(self) -> DType:
        """Its data type."""
        return self.value.dtype

    @property
    def shape(self) -> Shape:
        """The size of each axis."""
        return self.value.shape

    def apply(self, op_type: str, *others: Operand | None, **attributes: Any) -> Expr:
        """Return one of ONNX's own operators of this value and others; see `apply_operator`."""
        rest = (None if other is None else self._like(other) for other in others)
        inputs = [self.value, *rest]

        def add(name: str, output: int | None) -> Value:
            return apply_operator(self._op, name, op_type, inputs, output=output, **attributes)

        return Expr(self._op, add, op_type.lower())

    def step(self, op_type: str, *others: Operand, **params: Any) -> Expr:
        """Return an op of this value and others, for what no operator of ONNX computes."""
        inputs = [self._op.as_tensor(value) for value in (self.value, *map(self._like, others))]

        def add(name: str, output: int | None) -> Value:
            if output is None:
                return self._op.step(name, op_type, inputs, **params)
            return self._op.emit(op_type, inputs, output=output, **params)

        return Expr(self._op, add, op_type.removeprefix("ElementWise").lower())

    def cast(self, dtype: DType) -> Expr:
        """Return the value in another type; the value itself if it has that."""
        return self if self.dtype is dtype else self.apply("Cast", to=ELEMENT_TYPES[dtype])

    def reshaped(self, shape: Shape) -> Expr:
        """Return the value in another shape; the value itself if it has that."""
        if self.shape == shape:
            return self
        return self.step("Reshape", spec=Spec(self.dtype, shape))

    equals = _infix("Equal")
    __add__, __radd__ = _infix("Add"), _reflected("Add")
    __sub__, __rsub__ = _infix("Sub"), _reflected("Sub")
    __mul__, __rmul__ = _infix("Mul"), _reflected("Mul")
    __truediv__, __rtruediv__ = _infix("Div"), _reflected("Div")
    __pow__, __rpow__ = _infix("Pow"), _reflected("Pow")
    __mod__, __matmul__, __and__ = _infix("Mod"), _infix("MatMul"), _infix("And")
    __lt__, __le__ = _infix("Less"), _infix("LessOrEqual")
    __gt__, __ge__ = _infix("Greater"), _infix("GreaterOrEqual")
    __neg__, __abs__ = _function("Neg"), _function("Abs")

    def __floordiv__(self, other: Operand) -> Expr:
        return self.step("ElementWiseFloorDiv", other)

    def expr(self, other: Operand) -> Expr:
        """Return an operand as a value of the same formula; numbers in this one's type."""
        return other if isinstance(other, Expr) else Expr(self._op, self._like(other))

    def _like(self, other: Operand) -> Value:
        if isinstance(other, Expr):
            return other.value
        if isinstance(other, Tensor | Constant):
            return other
        if isinstance(self.value, Constant):
            return constant(self._op, "number", other, self.dtype)
        return self._op.static("number", np.asarray(other), self.dtype)


Operand = Expr | Value | ArrayLike

atan = _function("Atan")
cos = _function("Cos")
exp = _function("Exp")
floor = _function("Floor")
log = _function("Log")
rounded = _function("Round")
sigmoid = _function("Sigmoid")
sign = _function("Sign")
sin = _function("Sin")
sqrt = _function("Sqrt")
tanh = _function("Tanh")
maximum = _infix("Max")
minimum = _infix("Min")


def rsqrt(x: Expr) -> Expr:
    """Return 1 over the square root."""
    return x.step("ElementWiseRsqrt")


def clip(x: Expr, low: float, high: float) -> Expr:
    """Return a value within two bounds."""
    return x.step("ReluMinMax", min_value=float(low), max_value=float(high)).named("clip")


def where(condition: Expr, x: Operand, y: Operand) -> Expr:
    """Return x where a condition is true, else y; one of them may be a number."""
    if isinstance(x, Expr):
        return condition.apply("Where", x, x.expr(y))
    assert isinstance(y, Expr)
    return condition.apply("Where", y.expr(x), y)


def whole(x: Expr) -> Expr:
    """Return values that are whole numbers, and not negative, as INT_32.

    A cast truncates, and in a quantized model they are up to half a step below whole numbers.
    """
    return (x + 0.5).cast(DType.INT_32)


def operand(op: OpContext, i: int) -> Expr:
    """Return an input as a tensor of the graph, to start a formula with."""
    return Expr(op, op.tensor(i))


def value_of(op: OpContext, i: int) -> Expr:
    """Return an input as it is, so that what depends only on constants is one."""
    return Expr(op, op.value(i))
