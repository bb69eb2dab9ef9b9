"""Control flow."""

# ruff: noqa: D102 - what `infer` and `reference` do is said once, in the op's docstring

from __future__ import annotations

from dovetail.errors import OpError, UnsupportedOpError
from dovetail.ir import DType, Spec
from dovetail.ops import Arrays, In, Op, Specs, scalar
from dovetail_opset._package import PACKAGE


@PACKAGE.op("If")
class If(Op):
    """One of two graphs, by name: then_graph where the condition is true, else else_graph.

    in[0]: (), BOOL_8. The op's outputs are not documented, and no backend of the SDK supports it. A
    graph with this op can be read, checked and written, but not run: no node runs another graph.
    """

    inputs = (In("in[0]", dtypes=(DType.BOOL_8,)),)
    outputs = ()
    is_pure = False

    then_graph = scalar(dtypes=(DType.STRING,))
    else_graph = scalar(None, dtypes=(DType.STRING,))

    def infer(self, ins: Specs, outs: list[Spec | None]) -> tuple[Spec, ...]:
        condition = ins[0]
        if condition is not None and condition.shape not in ((), (1,)):
            raise OpError(
                f"the condition must be a single bool, but its shape is {condition.shape}"
            )
        return ()

    def reference(self, ins: Arrays, outs: list[Spec]) -> tuple[()]:
        raise UnsupportedOpError(
            f"a node cannot run another graph ('{self.then_graph}')",
            hint="run both graphs and choose with ElementWiseSelect, or choose in the application",
        )
