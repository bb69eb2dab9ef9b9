"""`--op-package-config`: models with ops that are defined, but have no code yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import dovetail as dt

XML = """\
<OpDefCollection PackageName="shop" Domain="org.shop" Version="0.3">
  <OpDefList>
    <OpDef>
      <Name>Widen</Name>
      <Input><Name>x</Name><Datatype>QNN_DATATYPE_FLOAT_32</Datatype>
        <Shape><Rank>2D</Rank><Text>[n, c]</Text></Shape></Input>
      <Output><Name>y</Name><Datatype>QNN_DATATYPE_FLOAT_32</Datatype>
        <Shape><Rank>2D</Rank><Text>[n, 2 * c]</Text></Shape></Output>
      <Parameter><Name>by</Name><Datatype>QNN_DATATYPE_FLOAT_32</Datatype>
        <Shape><Rank>SCALAR</Rank></Shape><Default>2</Default></Parameter>
      <Parameter><Name>mode</Name><Datatype>QNN_DATATYPE_UINT_32</Datatype>
        <Shape><Rank>SCALAR</Rank></Shape><Default>FIRST</Default>
        <Enumeration><Enum>FIRST</Enum><Enum>LAST</Enum></Enumeration></Parameter>
    </OpDef>
    <OpDef>
      <Name>Pick</Name>
      <Input><Name>x</Name><Datatype>QNN_DATATYPE_FLOAT_32</Datatype></Input>
      <Output><Name>y</Name><Datatype>QNN_DATATYPE_FLOAT_32</Datatype></Output>
      <Output><Name>count</Name><Mandatory>false</Mandatory>
        <Datatype>QNN_DATATYPE_INT_32</Datatype></Output>
    </OpDef>
  </OpDefList>
</OpDefCollection>
"""


@pytest.fixture(autouse=True)
def xml(folder: Path) -> None:
    Path("shop.xml").write_text(XML)


def save(
    *nodes: Any, y: list[int] | None = None, domain: str = "org.shop", **shapes: list[int]
) -> None:
    """Write `net.onnx`, from x (2, 3) to y; `shapes` are those of tensors between."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, y)],
        value_info=[
            helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()
        ],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), "net.onnx")


def op(op_type: str, *, domain: str = "org.shop", out: str = "y", **attributes: Any) -> Any:
    return helper.make_node(op_type, ["x"], [out], "mine", domain=domain, **attributes)


CONVERT = ("convert", "-i", "net.onnx", "--op_package_config", "shop.xml")


@pytest.mark.parametrize("domain", ["org.shop", "shop", "somebody.else"])
def test_a_node_of_any_domain_becomes_the_op(run: Any, domain: str) -> None:
    save(op("Widen", domain=domain, by=3.0, mode="LAST"), domain=domain)
    assert run(*CONVERT).code == 0
    (graph,) = dt.load("net.dvt").graphs.values()
    (node,) = graph.nodes
    assert (node.package, node.op_type, node.sources) == ("shop", "Widen", ("mine",))
    assert {name: param.value for name, param in node.params.items()} == {"by": 3.0, "mode": 1}
    assert graph.tensor("y").shape == (2, 6)


def test_a_shape_that_the_text_does_not_say_comes_from_the_model(run: Any) -> None:
    tail = helper.make_node("Relu", ["picked"], ["y"])
    save(op("Pick", out="picked"), tail, picked=[5])
    done = run(*CONVERT)
    assert done.code == 0, done.err
    (graph,) = dt.load("net.dvt").graphs.values()
    assert graph.tensor("y").shape == (5,)
    assert [len(node.outputs) for node in graph.nodes] == [1, 1]  # `count` is left out


def test_a_shape_that_nothing_says_is_refused(run: Any) -> None:
    save(op("Pick"))
    done = run(*CONVERT)
    assert done.code == 3
    assert "node 'mine'" in done.err
    assert "unknown shape of output 'y' (state it in the model (value_info)" in done.err
    assert not Path("net.dvt").exists()


def test_a_shape_that_contradicts_the_text_is_told(run: Any) -> None:
    save(op("Widen"), y=[2, 7])
    done = run(*CONVERT)
    assert done.code == 0
    assert "declared as (2, 7) in the model, but its shape is (2, 6)" in done.err
    (graph,) = dt.load("net.dvt").graphs.values()
    assert graph.tensor("y").shape == (2, 6)


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"byy": 1.0}, "unknown attribute 'byy'; did you mean 'by'?"),
        ({"mode": "MIDDLE"}, "'MIDDLE'"),
        ({"mode": 2}, "allowed: FIRST=0, LAST=1"),
    ],
)
def test_attributes_that_do_not_fit(run: Any, attributes: dict[str, Any], said: str) -> None:
    save(op("Widen", **attributes))
    done = run(*CONVERT)
    assert done.code == 4
    assert said in done.err


def test_two_packages_with_one_op_are_refused(run: Any) -> None:
    Path("mall.xml").write_text(XML.replace('"shop"', '"mall"'))
    save(op("Widen"))
    done = run(*CONVERT, "-opc", "mall.xml")
    assert done.code == 4
    assert "'shop' and 'mall' both have an op 'Widen'" in done.err
    done = run(*CONVERT, "-opc", "shop.xml")
    assert done.code == 6
    assert "duplicate op package 'shop'" in done.err


def test_what_is_wrong_in_the_file_is_said_with_its_line(run: Any) -> None:
    save(op("Widen"))
    Path("shop.xml").write_text(XML.replace("<Default>2<", "<Default>two<"))
    done = run(*CONVERT)
    assert done.code == 2
    assert "shop.xml:9: invalid default of 'by': 'two' is neither a number" in done.err


RUN = ("net-run", "--model", "net.dvt", "--input-list", "list.txt")


def test_without_code_the_model_does_not_run(run: Any, raw: Any, listing: Any) -> None:
    save(op("Widen"))
    assert run(*CONVERT).code == 0
    raw("x.raw", np.ones(6))
    listing("x.raw")
    done = run(*RUN)
    assert done.code == 4
    assert "op package 'shop' not found" in done.err
    assert "Widen" in done.err
    assert not Path("output").exists()


def test_with_a_generated_package_that_somebody_completes_it_runs(
    run: Any, raw: Any, listing: Any, result: Any
) -> None:
    save(op("Widen", by=3.0))
    assert run(*CONVERT).code == 0
    assert run("op-package-generator", "-p", "shop.xml").code == 0
    x = raw("x.raw", np.linspace(-1, 1, 6)).reshape(2, 3)
    listing("x.raw")
    code = Path("shop/src/shop/ops.py")
    brought = ("--op-packages", f"{code}:PACKAGE:cpu")
    done = run(*RUN, *brought)
    assert done.code == 4
    assert "the op shop::Widen has no code yet" in done.err
    assert f"write its `reference` in {code.resolve()}" in done.err
    # another file: a module is read once in a process
    whole = code.with_name("whole.py")
    text = code.read_text().replace(
        'raise _unwritten("Widen")', "return np.concatenate([x, self.by * x], axis=1)"
    )
    whole.write_text(
        text.replace("from dovetail.errors", "import numpy as np\nfrom dovetail.errors")
    )
    done = run(*RUN, "--op-packages", f"{whole}:PACKAGE:cpu")
    assert done.code == 0, done.err
    expected = np.concatenate([x, np.float32(3) * x], axis=1)
    np.testing.assert_array_equal(result("y.raw"), expected.ravel())
