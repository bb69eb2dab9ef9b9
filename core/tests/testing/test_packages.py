"""What the kit demands of op packages: each op here breaks one thing, and one aspect says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dovetail.errors import OpError
from dovetail.ir import Array, DType, Spec
from dovetail.ops import In, Op, OpPackage, Out, uint32
from dovetail.testing import ASPECTS, Call, OpCase, Outcome, Status, run_aspect, subjects

X = np.array([[1.0, -2.0, 4.0]], np.float32)


class Good(Op):
    """Each row `count` times over: (n, m) gives (n * count, m)."""

    inputs = (In("in[0]", (DType.FLOAT_32, DType.UFIXED_POINT_8, DType.SFIXED_POINT_16)),)
    source = "the tests' own"

    count = uint32()

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        if len(x.shape) != 2:
            raise OpError(f"in[0] {x.shape} is no matrix")
        rows = x.shape[0] * self.count
        return Spec(x.dtype, (rows, x.shape[1]), out.encoding if out else None)

    def reference(self, x: Array) -> Array:
        return np.repeat(x, self.count, 0)


def expected(x: Array) -> Array:
    return np.array([row for row in x for _ in range(2)], x.dtype)


CASES = (OpCase("Repeat", (X,), expected, {"count": 2}, package="p"),)


def judged(op: type[Op], cases: tuple[OpCase, ...] = CASES) -> dict[str, Outcome]:
    package = OpPackage("p")
    package.op("Repeat")(op)
    (subject,) = subjects(package, cases)
    return {aspect.__name__: run_aspect(subject, aspect) for aspect in ASPECTS}


def like_good(**changes: Any) -> type[Op]:
    return type("Bad", (Good,), {"__doc__": "Repeats.", **changes})


def test_a_good_op_passes_in_every_aspect() -> None:
    found = judged(Good)
    assert {o.status for o in found.values()} == {Status.PASSED}
    assert list(found) == ["definition", "reference", "quantized", "errors"]


def modifying(self: Any, x: Array) -> Array:
    x *= 1
    return np.repeat(x, self.count, 0)


def careless(self: Any, x: Spec, out: Spec | None) -> Spec:
    n, m = x.shape
    return Spec(x.dtype, (n * self.count, m), out.encoding if out else None)


def too_long(self: Any, x: Array) -> Array:
    return np.repeat(x, self.count + 1, 0)


def tiled(self: Any, x: Array) -> Array:
    return np.tile(x, (self.count, 1)) + 1


def divided(self: Any, x: Spec, out: Spec | None) -> Spec:
    if len(x.shape) != 2:
        raise OpError("in[0] is no matrix")
    return Spec(x.dtype, (x.shape[0] * (self.count // 1) * (2 // self.count), *x.shape[1:]))


def other_type(self: Any, x: Spec, out: Spec | None) -> Spec:
    return Spec(DType.FLOAT_16, (x.shape[0] * self.count, x.shape[1]))


@pytest.mark.parametrize(
    ("op", "aspect", "reason"),
    [
        (like_good(__doc__=None), "definition", "no docstring"),
        (like_good(source=""), "definition", "source"),
        (like_good(reference=tiled), "reference", "elements differ"),
        (like_good(reference=too_long), "reference", "infer (2, 3)"),
        (like_good(infer=other_type), "reference", "returns FLOAT_16"),
        (like_good(reference=modifying), "reference", "writes its inputs"),
        (like_good(infer=careless), "errors", "`infer` raised ValueError"),
        (like_good(infer=divided), "errors", "ZeroDivisionError"),
        (like_good(reference=tiled), "quantized", "elements differ"),
    ],
)
def test_what_an_op_breaks_is_said(op: type[Op], aspect: str, reason: str) -> None:
    found = judged(op)[aspect]
    assert found.status is Status.FAILED
    assert reason in found.reason


def test_an_op_without_a_case_is_not_defined() -> None:
    assert "no case" in judged(Good, ())["definition"].reason


def test_two_cases_of_one_name_are_refused() -> None:
    assert "duplicate case names" in judged(Good, CASES * 2)["definition"].reason


def test_an_op_of_floats_alone_is_not_judged_quantized() -> None:
    found = judged(like_good(inputs=(In("in[0]", (DType.FLOAT_32,)),)))
    assert found["quantized"].status is Status.UNSUPPORTED
    assert found["reference"].status is Status.PASSED


class Sum(Good):
    """The sum of x and all that came before."""

    is_pure = False

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        return x

    def reference(self, x: Array) -> Array:
        self.__dict__["total"] = self.__dict__.get("total", 0) + x
        return np.array(self.__dict__["total"])


@pytest.mark.parametrize(("factor", "status"), [(3, Status.PASSED), (2, Status.FAILED)])
def test_ops_that_remember_are_judged_call_by_call(factor: int, status: Status) -> None:
    calls = (Call((X * 2,), X * factor), Call((X * 0,), X * 3))
    case = OpCase("Repeat", (X,), X, {"count": 1}, package="p", later_calls=calls)
    found = judged(Sum, (case,))["reference"]
    assert found.status is status
    assert ("call 2: out[0]" in found.reason) is (status is Status.FAILED)


def test_outputs_are_judged_one_by_one() -> None:
    class Pair(Good):
        """x twice."""

        outputs = (Out("out[0]"), Out("out[1]"))

        def infer(self, x: Spec, first: Spec | None, second: Spec | None) -> tuple[Spec, Spec]:
            return x, x

        def reference(self, x: Array) -> tuple[Array, Array]:
            return x, x + 1

    case = OpCase("Repeat", (X,), lambda x: (x, x), {"count": 2}, package="p")
    assert "out[1]: 3 of 3" in judged(Pair, (case,))["reference"].reason
