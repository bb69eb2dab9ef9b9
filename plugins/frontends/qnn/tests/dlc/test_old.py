"""DLC files of major 3: what is known of them is converted, everything else is listed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from dlc_files import write_members

import dovetail
from dovetail.errors import FrontendError, UnsupportedOpError
from dovetail.ir import DType, Scalar, Tensor
from dovetail_qnn.dlc import DlcFrontend
from dovetail_qnn.dlc._old_tables import (
    OldAttributeTable,
    OldDataTable,
    OldModelTable,
    OldNodeTable,
    OldNodeWeightsTable,
    OldWeightsTable,
    OldWeightTable,
)
from dovetail_qnn.dlc.flatbuffers import encode

WEIGHT = np.arange(12, dtype=np.float32).reshape(3, 4)


def dims(*shapes: tuple[int, ...]) -> OldAttributeTable:
    """Return the attribute with the shapes of a node's outputs."""
    each = tuple(OldAttributeTable(str(i), 8, integers=s) for i, s in enumerate(shapes))
    return OldAttributeTable("OutputDims", 11, attributes=each)


def neuron(kind: int, name: str = "n", x: str = "x", y: str = "y") -> OldNodeTable:
    attributes = (dims((2, 2)), OldAttributeTable("type", 2, integer=kind))
    return OldNodeTable(1, name, "Neuron", (x,), (y,), attributes)


INPUT = OldNodeTable(0, "in", "Input", (), ("x",), (dims((1, 4)),))
FLAT = OldNodeTable(1, "flat", "Reshape", ("x",), ("f",), (dims((2, 2)),))
KNOWN = (INPUT, FLAT, neuron(1, "relu", "f", "r"), neuron(3, "sigmoid", "r", "y"))
UNKNOWN = OldNodeTable(
    2,
    "fc",
    "FullyConnected",
    ("x",),
    ("z",),
    (
        dims((1, 3)),
        OldAttributeTable("flag", 1, truth=1),
        OldAttributeTable("count", 3, unsigned=2**32 - 1),
        OldAttributeTable("rate", 4, real=0.5),
        OldAttributeTable("mode", 5, text="same"),
        OldAttributeTable("sizes", 8, integers=(-1, 2)),
        OldAttributeTable("reals", 9, reals=(0.5, 1.0)),
        OldAttributeTable("raw", 7, bytes=memoryview(b"\1\2")),
    ),
)


def weights(floats: bool = True) -> OldWeightsTable:
    data = memoryview(WEIGHT.tobytes())
    table = OldDataTable(9, floats=data) if floats else OldDataTable(9, data)
    return OldWeightsTable(
        (OldNodeWeightsTable("fc", (OldWeightTable("weights", WEIGHT.shape, table),)),)
    )


def write(
    path: Path,
    nodes: tuple[OldNodeTable, ...],
    given: OldWeightsTable | None = None,
    prefix: bytes = b"\xd5\x0a\x03\0\0\0\0\0",
) -> Path:
    members: Mapping[str, bytes] = {"model": prefix + encode(OldModelTable(nodes), b"NETD")}
    if given is not None:
        members = {**members, "model.params": prefix + encode(given, b"NETP")}
    return write_members(path, members)


@pytest.mark.parametrize("prefix", [b"", b"\xd5\x0a\x03\0\x07\0\0\0"])
def test_known_types_are_converted(prefix: bytes, tmp_path: Path) -> None:
    path = write(tmp_path / "old.dlc", KNOWN, prefix=prefix)
    assert DlcFrontend().recognises(path)
    with dovetail.Session(path, backend="cpu") as session:
        (found,) = session.run({"x": np.float32([[-1, 0, 1, 2]])}).values()
    expected = 1 / (1 + np.exp(-np.float64([[0, 0], [1, 2]])))
    np.testing.assert_allclose(found, expected, rtol=1e-6)  # float32


@pytest.mark.parametrize("floats", [True, False])
def test_other_types_are_listed_with_all_that_is_known(floats: bool, tmp_path: Path) -> None:
    path = write(tmp_path / "old.dlc", (INPUT, UNKNOWN), weights(floats))
    (graph,) = DlcFrontend().read(path)
    (node,) = graph.nodes
    assert (node.package, node.op_type) == ("dlc.3", "FullyConnected")
    weight = node.inputs[1]
    assert weight is not None
    np.testing.assert_array_equal(weight.values(), WEIGHT)
    assert graph.outputs == node.outputs
    assert graph.outputs[0].shape == (1, 3)
    scalars = {name: p for name, p in node.params.items() if isinstance(p, Scalar)}
    assert scalars == {
        "flag": Scalar(DType.BOOL_8, True),
        "count": Scalar(DType.UINT_32, 2**32 - 1),
        "rate": Scalar(DType.FLOAT_32, 0.5),
        "mode": Scalar(DType.STRING, "same"),
    }
    arrays = {n: p.values().tolist() for n, p in node.params.items() if isinstance(p, Tensor)}
    assert arrays == {"sizes": [-1, 2], "reals": [0.5, 1.0], "raw": [1, 2]}
    with pytest.raises(UnsupportedOpError) as caught:
        dovetail.convert(path)
    assert "FullyConnected" in str(caught.value)
    survey = DlcFrontend().dry_run(path)
    assert [(use.domain, use.op_type, use.supported) for use in survey.operators] == [
        ("dlc.3", "FullyConnected", False)
    ]
    assert len(survey.problems) == 1


def test_all_faults_are_listed(tmp_path: Path) -> None:
    nodes = (
        INPUT,
        OldNodeTable(1, "a", "Reshape", ("x",), ("a",)),
        OldNodeTable(2, "b", "Neuron", ("none",), ("b",), (dims((1, 4)),)),
        OldNodeTable(3, None, "Neuron"),
        UNKNOWN,
    )
    bad = OldWeightsTable((OldNodeWeightsTable("fc", (OldWeightTable("w", (1,)),)),))
    with pytest.raises(FrontendError) as caught:
        DlcFrontend().read(write(tmp_path / "old.dlc", nodes, bad))
    assert [str(p) for p in caught.value.problems] == [
        "model: nodes[1] 'a': 1 outputs, but 0 shapes in 'OutputDims'",
        "model: nodes[2] 'b': tensor 'none' not found",
        "model: nodes[3]: the node has no name or no type",
        "model: nodes[4] 'fc': the weight 'w' has no payload of a known type",
    ]
    with pytest.raises(FrontendError, match="the stream has no node"):
        DlcFrontend().read(write(tmp_path / "old.dlc", ()))
