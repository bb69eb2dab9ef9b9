"""Forms of `X_net.json` that converters of several versions and the vendor's runtime write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dovetail.errors import FrontendError
from dovetail.ir import DType, Graph, Scalar, ScaleOffset
from dovetail_qnn import QnnJsonFrontend

UNDEFINED = {"definition": 2147483647, "encoding": 2147483647}


def tensor(kind: int, dims: list[int], **fields: Any) -> dict[str, Any]:
    return {"type": kind, "data_type": 562, "dims": dims, "quant_params": UNDEFINED} | fields


def node(op_type: str, scalars: dict[str, Any], **fields: Any) -> dict[str, Any]:
    base = {"package": "qti.aisw", "type": op_type, "tensor_params": {}}
    return base | {"scalar_params": scalars, "input_names": ["x"], "output_names": ["y"]} | fields


def read(folder: Path, nodes: dict[str, Any], tensors: dict[str, Any] | None = None) -> Graph:
    default = {"x": tensor(0, [1, 4]), "y": tensor(1, [1, 4])}
    graph = {"tensors": default if tensors is None else tensors, "nodes": nodes}
    path = folder / "m_net.json"
    path.write_text(json.dumps({"model.cpp": "N/A", "graph": graph}), "utf-8")
    return QnnJsonFrontend().read(path)[0]


@pytest.mark.parametrize(
    ("op_type", "scalars", "expected", "params"),
    [
        ("Neuron", {"neuron_type": {"2147483647": "Relu"}}, "Relu", {}),
        (
            "Eltwise_Binary",
            {"eltwise_type": {"2147483647": "ElementWiseAdd"}},
            "ElementWiseAdd",
            {},
        ),
        ("Pool", {"pool_type": {"1544": "PoolMax2d"}}, "PoolMax2d", {}),
        ("Reduce", {"reduce_type": {"1544": "ReduceMean"}}, "ReduceMean", {}),
        (
            "ElementWiseNeuron",
            {"operation": {"306": 4}, "neuron_type": {"2147483647": "Relu"}},
            "ElementWiseNeuron",
            {"operation": 4},
        ),
        ("Neuron", {"operation": {"306": 6}}, "ElementWiseNeuron", {"operation": 6}),
        (
            "Eltwise_Binary",
            {"operation": {"306": 13}, "eltwise_type": {"2147483647": "ElementWiseMultiply"}},
            "ElementWiseBinary",
            {"operation": 13},
        ),
        ("Neuron", {}, "Neuron", {}),  # an unknown op, reported with all others
    ],
)
def test_names_of_converters_become_those_of_the_op_set(
    tmp_path: Path, op_type: str, scalars: Any, expected: str, params: dict[str, int]
) -> None:
    scalars = scalars | {"packageName": {"2147483647": "qti.aisw"}}
    graph = read(tmp_path, {"n": node(op_type, scalars)})
    assert graph.node("n").op_type == expected
    found = {name: p.value for name, p in graph.node("n").params.items() if isinstance(p, Scalar)}
    assert found == params


def test_other_packages_keep_their_ops_and_params(tmp_path: Path) -> None:
    scalars = {"neuron_type": {"2147483647": "Relu"}, "gain": {"562": 0.5}}
    graph = read(tmp_path, {"n": node("Neuron", scalars, package="my.pkg")})
    found = graph.node("n")
    assert (found.package, found.op_type) == ("my.pkg", "Neuron")
    assert found.params == {
        "neuron_type": Scalar(DType.STRING, "Relu"),
        "gain": Scalar(DType.FLOAT_32, 0.5),
    }


@pytest.mark.parametrize(
    ("quant", "expected"),
    [
        (UNDEFINED, None),
        ({"definition": 1, "encoding": 0, "scale_offset": {"scale": 0.5, "offset": -3}},
         ScaleOffset(0.5, -3)),
        ({"definition": 1, "encoding": 0, "is_overridden": True,
          "scale_offset": {"bitwidth": 8, "minimum": 0.0, "maximum": 1.0, "scale": 0.5,
                           "offset": -3, "is_symmetric": False, "is_fixed_point": True}},
         ScaleOffset(0.5, -3)),
        ({"definition": 1, "encoding": 2,
          "bw_scale_offset": {"bitwidth": 4, "scale": 0.5, "offset": 0}}, ScaleOffset(0.5, 0, 4)),
    ],
)  # fmt: skip
def test_encodings_of_several_versions(tmp_path: Path, quant: Any, expected: Any) -> None:
    tensors = {
        "x": tensor(0, [1, 4], data_type=1032, quant_params=quant),
        "y": tensor(1, [1, 4], data_type=1032),
    }
    assert read(tmp_path, {"n": node("Relu", {})}, tensors).tensor("x").encoding == expected


def test_tensors_come_in_the_order_of_their_ids(tmp_path: Path) -> None:
    """The vendor's runtime sorts them by name; ids say the order of inputs."""
    tensors = {
        "a": tensor(0, [1, 4], id=7),
        "b": tensor(0, [1, 4], id=2),
        "y": tensor(1, [1, 4], id=4),
    }
    nodes = {"n": node("ElementWiseAdd", {}, input_names=["b", "a"])}
    assert [t.name for t in read(tmp_path, nodes, tensors).inputs] == ["b", "a"]


def test_layouts_say_what_was_transposed(tmp_path: Path) -> None:
    image = {"axis_format": "NHWC", "src_axis_format": "NCHW"}
    tensors = {"x": tensor(0, [1, 4, 4, 3], **image), "y": tensor(1, [1, 4, 4, 3])}
    graph = read(tmp_path, {"n": node("Relu", {})}, tensors)
    assert graph.tensor("x").source_perm == (0, 2, 3, 1)
    assert graph.tensor("y").source_perm is None


def test_infinite_scalars_are_text(tmp_path: Path) -> None:
    params = {"low": {"562": "-inf"}, "high": {"562": "inf"}, "none": {"562": "nan"}}
    found = read(tmp_path, {"n": node("Clip", params, package="my.pkg")}).node("n").params
    values = [p.value for p in found.values() if isinstance(p, Scalar)]
    assert np.array_equal(values, [-np.inf, np.inf, np.nan], equal_nan=True)


def test_an_encoding_without_its_scales_is_an_error(tmp_path: Path) -> None:
    """The vendor's runtime writes narrow encodings along an axis without their scales."""
    quant = {"definition": 1, "encoding": 3, "scale_offset": {"offset": 3, "scale": 5.6e-45}}
    tensors = {
        "x": tensor(0, [1, 4], data_type=776, quant_params=quant),
        "y": tensor(1, [1, 4], data_type=776),
    }
    with pytest.raises(FrontendError, match="form of the encoding BW_AXIS_SCALE_OFFSET"):
        read(tmp_path, {"n": node("Relu", {})}, tensors)
