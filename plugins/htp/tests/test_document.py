"""`docs/htp.md` has the tables of the code."""

import pytest
from document import DOCUMENT, generated

from dovetail import runtime
from dovetail.container import Model, Producer
from dovetail.errors import UnsupportedOpError
from dovetail.ir import DType, Graph, ScaleOffset, Tensor, TensorKind
from dovetail_htp.processors import DSP, HTP
from dovetail_opset.build import add


def test_generated_parts_are_those_of_the_code() -> None:
    text = DOCUMENT.read_text("utf-8")
    assert text == generated(text), "run python plugins/htp/tests/helpers/document.py"


def test_the_architectures_are_named() -> None:
    text = DOCUMENT.read_text("utf-8")
    for family in (HTP, DSP):
        assert f"architecture: {', '.join(f'v{arch}' for arch in family.archs)} |" in text
        assert f"| {family.name.upper()} v{family.default} |" in text


def test_the_error_is_as_shown() -> None:
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (2, 3), TensorKind.APP_WRITE))
    y = Tensor("y", DType.FLOAT_32, (2, 3), TensorKind.APP_READ)
    add(graph, "ElementWiseSoftplus", [x], name="act", outputs=y)
    wide, grid = DType.SFIXED_POINT_32, ScaleOffset(0.1)
    x = graph.add_tensor(Tensor("a", wide, (2, 3), TensorKind.APP_WRITE, encoding=grid))
    y = Tensor("b", wide, (2, 3), TensorKind.APP_READ, encoding=grid)
    add(graph, "Relu", [x], name="cut", outputs=y)
    with runtime.Backend.create("htp") as backend:
        model = Model({"net": graph}, Producer("test", "1"), {})
        (composed,) = backend.create_context().compose(model)
        with pytest.raises(UnsupportedOpError) as caught:
            composed.finalize()
    assert f"```\n{caught.value}\n```" in DOCUMENT.read_text("utf-8")
