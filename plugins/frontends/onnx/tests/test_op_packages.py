"""Domains that are installed op packages: their ops are taken one to one, unless importers win."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import helper, numpy_helper

from dovetail import plugins
from dovetail.errors import UnsupportedOpError
from dovetail_onnx import OnnxFrontend, OnnxOptions

OPS = """
import enum

import numpy as np
from dovetail.ops import In, Op, OpPackage, Out, bool8, choice, float32, tensor, uint32

PACKAGE = OpPackage("org.ops")


class Mode(enum.IntEnum):
    SOFT = 0
    HARD = 1


@PACKAGE.op("Blend")
class Blend(Op):
    inputs = (In("in[0]"), In("in[1]", optional=True))
    outputs = (Out("out[0]"), Out("out[1]", optional=True))
    depth = uint32()
    limit = float32(default=0.5)
    smooth = bool8(default=False)
    mode = choice(Mode, default=Mode.SOFT)
    taps = tensor((None,), default=(1, 2))

    def infer(self, ins, outs):
        return [ins[0]] * len(outs)

    def reference(self, ins, outs):
        return [np.asarray(ins[0])] * len(outs)
"""
IMPORTERS = """
from dovetail_onnx import Importers

TABLE = Importers("org.ops")


@TABLE.importer("Blend", versions=(1,))
def blend(op):
    return op.emit("Relu", [op.tensor(0)])
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a dist that brings an op package, and importers for it where they are given."""

    def run(ops: str = OPS, importers: str = "") -> None:
        points = "[dovetail.op_packages]\norg.ops = blend_ops:PACKAGE\n"
        if importers:
            (tmp_path / "blend_importers.py").write_text(importers)
            points += "[dovetail.importers]\nonnx:org.ops = blend_importers:TABLE\n"
        (tmp_path / "blend_ops.py").write_text(ops)
        info = tmp_path / "blend_ops-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: blend-ops\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(points)
        monkeypatch.syspath_prepend(str(tmp_path))
        plugins.refresh()

    yield run
    for module in ("blend_ops", "blend_importers"):
        sys.modules.pop(module, None)
    monkeypatch.undo()
    plugins.refresh()


@pytest.fixture
def blended(model, tmp_path: Path):
    """Read a model of one node of the package."""

    def run(op_type="Blend", ins=("x", "z"), outs=("y",), **attributes):
        node = helper.make_node(op_type, ins, outs, name="b", domain="org.ops", **attributes)
        like = {name: np.ones((2, 3), np.float32) for name in ins if name}
        made = model([node], like, [name for name in outs if name])
        made.opset_import.append(helper.make_opsetid("org.ops", 1))
        path = tmp_path / "model.onnx"
        path.write_bytes(made.SerializeToString())
        (graph,) = OnnxFrontend().read(path, OnnxOptions())
        return graph

    return run


def test_an_op_package_alone_is_enough(install, blended) -> None:
    install()
    graph = blended(outs=("y", "w"), depth=3, limit=2, smooth=1, mode="HARD", taps=[4, 5, 6])
    (node,) = graph.nodes
    assert (node.package, node.op_type, node.sources) == ("org.ops", "Blend", ("b",))
    assert [t.name for t in node.inputs] == ["x", "z"]
    assert [(t.name, t.shape) for t in node.outputs] == [("y", (2, 3)), ("w", (2, 3))]
    taps = node.params.pop("taps")
    assert (taps.values().tolist(), taps.dtype.name) == ([4, 5, 6], "UINT_32")
    found = {name: (p.dtype.name, p.value) for name, p in node.params.items()}
    assert found == {
        "depth": ("UINT_32", 3),
        "limit": ("FLOAT_32", 2.0),
        "smooth": ("BOOL_8", True),
        "mode": ("UINT_32", 1),
    }


def test_left_out_inputs_and_params_stay_so(install, blended) -> None:
    install()
    (node,) = blended(ins=("x",), depth=1).nodes
    assert (len(node.inputs), list(node.params)) == (1, ["depth"])


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ({}, "missing required param 'depth'"),
        ({"depht": 1}, "the node does not match the op org.ops::Blend: unknown attribute 'depht';"),
        ({"depth": -1}, "param 'depth' is UINT_32, which cannot hold -1"),
        ({"depth": 1.5}, "param 'depth' is UINT_32, which cannot hold 1.5"),
        ({"depth": 1, "mode": "HRAD"}, "'HRAD': did you mean 'HARD'?"),
        (
            {"depth": 1, "taps": [-1]},
            "the node does not match the op org.ops::Blend: invalid attribute 'taps':",
        ),
        ({"depth": 1, "taps": [1.5, 2.0]}, "[1.5, 2.0] does not fit UINT_32"),
        ({"depth": 1, "taps": numpy_helper.from_array(np.array([2**32]))}, "does not fit UINT_32"),
        ({"depth": [1, 2]}, "param 'depth' is UINT_32, which cannot hold [1, 2]"),
        (
            {"depth": 1, "taps": "text"},
            "the node does not match the op org.ops::Blend: invalid attribute 'taps':",
        ),
        ({"depth": 1, "ins": ("x", "z", "x")}, "has 3 inputs; org.ops::Blend takes 1 to 2"),
    ],
)
def test_nodes_that_do_not_fit_the_op(install, blended, node, reason) -> None:
    install()
    with pytest.raises(UnsupportedOpError) as caught:
        blended(**node)
    (problem,) = caught.value.problems
    assert problem.where == "org.ops:Blend node 'b'"
    assert reason in problem.message
    assert "'onnx:org.ops'" in problem.hint


def test_ops_that_the_package_does_not_have(install, blended) -> None:
    install()
    with pytest.raises(UnsupportedOpError) as caught:
        blended("Blnd", depth=1)
    (problem,) = caught.value.problems
    assert problem.message == "op 'Blnd' not found in op package 'org.ops'"
    assert "did you mean 'Blend'?" in problem.hint
    assert "group dovetail.importers, entry point 'onnx:org.ops'" in problem.hint


def test_importers_win(install, blended) -> None:
    install(importers=IMPORTERS)
    (node,) = blended(depth=1).nodes
    assert node.op_type == "Relu"


def test_a_broken_package_says_why(install, blended) -> None:
    install("raise RuntimeError('out of order')")
    with pytest.raises(UnsupportedOpError, match=r"op package 'org\.ops' cannot be used") as caught:
        blended(depth=1)
    assert "out of order" in caught.value.problems[0].message
