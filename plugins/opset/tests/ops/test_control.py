"""If: what it is can be said, what it does cannot."""

import numpy as np
import pytest

from dovetail.errors import OpError, UnsupportedOpError
from dovetail.ir import DType, Scalar, Spec
from dovetail_opset import PACKAGE

IF = PACKAGE.schemas["If"]
NAMES = {"then_graph": Scalar(DType.STRING, "yes"), "else_graph": Scalar(DType.STRING, "no")}


def test_its_params_are_names_of_graphs() -> None:
    assert not IF.param_faults(NAMES)
    assert IF.param_faults({}) == ["missing required param 'then_graph'"]
    op = IF.bind(NAMES, [])
    assert (op.then_graph, op.else_graph) == ("yes", "no")  # type: ignore[attr-defined]


def test_the_condition_is_one_bool() -> None:
    op = IF.bind(NAMES, [])
    assert IF.infer(op, [Spec(DType.BOOL_8, ())], []) == ()
    with pytest.raises(OpError, match=r"must be a single bool, but its shape is \(2,\)"):
        IF.infer(op, [Spec(DType.BOOL_8, (2,))], [])


def test_it_is_not_run() -> None:
    with pytest.raises(UnsupportedOpError, match="cannot run another graph"):
        IF.reference(IF.bind(NAMES, []), [np.array(True)], [])
