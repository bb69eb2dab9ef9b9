"""DefinedOp: shapes as the ports of an op state them."""

from __future__ import annotations

import pytest

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Spec
from dovetail.ops import DefinedOp, In, OpPackage, OpSchema, Out, ShapeText

FLOAT = DType.FLOAT_32


def schema(shape: str) -> OpSchema:
    package = OpPackage("defined", "1.0")

    @package.op("Stack")
    class Stack(DefinedOp):
        inputs = (In("x", shape="[n, c]"), In("more", shape="2D", variadic=True))
        outputs = (Out("y", (FLOAT, DType.INT_8), shape=shape), Out("z", optional=True))

        def reference(self, ins: list[Array], outs: list[Spec]) -> list[Array]:
            return ins

    return package.schemas["Stack"]


def infer(shape: str, *ins: tuple[int, ...], outs: list[Spec | None] | None = None) -> list[Spec]:
    op = schema(shape)
    return list(op.infer(op.op(), [Spec(FLOAT, each) for each in ins], outs or [None]))


def test_shapes_are_computed_from_the_first_occurrence_of_a_name() -> None:
    assert infer("[2 * n, c - 1]", (3, 5), (9, 9)) == [Spec(FLOAT, (6, 4))]
    assert infer("[]", (3, 5), (9, 9)) == [Spec(FLOAT, ())]


def test_what_is_not_stated_is_declared() -> None:
    y, z = Spec(DType.INT_8, (7, 8)), Spec(DType.UINT_8, (1,))
    assert infer("2D", (3, 5), (9, 9), outs=[y, z]) == [y, z]
    assert infer("", (3, 5), (9, 9), outs=[y]) == [y]
    with pytest.raises(OpError, match="unknown shape of output 'y'"):
        infer("[k]", (3, 5), (9, 9))  # no input has this name


@pytest.mark.parametrize("shape", ["2 D", "[n", "n, c", "-1D", "[n ** c]", "[f(n)]", "[1.5]"])
def test_what_is_no_shape_is_rejected(shape: str) -> None:
    with pytest.raises(OpError, match="invalid shape"):
        infer(shape, (3, 5), (9, 9))


@pytest.mark.parametrize("text", ["[n, 2 * (c + 1)]", "[]", "[a-b*c]", f"[{'+'.join('a' * 249)}]"])
def test_a_text_that_is_read_can_be_read_again(text: str) -> None:
    read = ShapeText.parse(text)
    assert read is None or str(ShapeText.parse(str(read))) == str(read)
