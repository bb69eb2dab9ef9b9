"""Elementwise functions of two tensors, selected by a param."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

import enum

from dovetail.ir import Array, Spec
from dovetail.ops import In, Op, choice
from dovetail_opset._package import PACKAGE
from dovetail_opset._variants import Variants


class Binary(enum.IntEnum):
    """The functions of ElementWiseBinary."""

    ADD = 0
    AND = 1
    DIVIDE = 2
    EQUAL = 3
    FLOOR_DIV = 4
    FMOD = 5
    GREATER = 6
    GREATER_EQUAL = 7
    LESS = 8
    LESS_EQUAL = 9
    MAXIMUM = 10
    MINIMUM = 11
    MOD = 12
    MULTIPLY = 13
    NOT_EQUAL = 14
    OR = 15
    POWER = 16
    SQUARED_DIFFERENCE = 17
    SUBTRACT = 18
    XOR = 19


def _single(operation: Binary) -> Op:
    """Return the single op of an operation: FLOOR_DIV is ElementWiseFloorDiv."""
    return PACKAGE.schemas[f"ElementWise{operation.name.title().replace('_', '')}"].op()


BINARIES = {operation: _single(operation) for operation in Binary}


@PACKAGE.op("ElementWiseBinary")
class ElementWiseBinary(Variants):
    """A function of two tensors, selected by `operation`. Shapes broadcast.

    Each operation behaves as the single op of its name: comparisons and logic return BOOL_8 unless
    the output declares another type.
    """

    inputs = (In("in[0]"), In("in[1]"))

    operation = choice(Binary)

    @property
    def single(self) -> Op:
        """The single op with the same behaviour."""
        return BINARIES[self.operation]

    def infer(self, a: Spec, b: Spec, out: Spec | None) -> Spec:
        found: Spec = self.single.infer(a, b, out)
        return found

    def reference(self, a: Array, b: Array) -> Array:
        found: Array = self.single.reference(a, b)
        return found
