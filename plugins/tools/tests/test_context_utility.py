"""context-binary-utility: JSON with the key names of the SDK's tool."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dovetail.ir import AxisScaleOffset, DType, ScaleOffset, Tensor, TensorKind


def info_of(run: Any, *options: str) -> Any:
    given = ("--model", "net.dvt", "--binary-file", "net", *options)
    assert run("context-binary-generator", *given).code == 0
    done = run(
        "context-binary-utility", "--context_binary", "output/net.bin", "--json_file", "o.json"
    )
    assert done.code == 0, done.err
    data = json.loads(Path("o.json").read_text())
    assert set(data) == {"info", "version"}
    return data["info"]


def test_graphs_and_tensors(new_net: Any, run: Any) -> None:
    net = new_net()
    x = net.input("x", 2, 3, dtype=DType.UFIXED_POINT_8, encoding=ScaleOffset(0.5, -3))
    net.save(net.node("Relu", x, name="y"))
    info = info_of(run)
    assert (info["backendId"], info["numGraphs"], info["numContextTensors"]) == (3, 1, 0)
    assert info["contextBlobSize"] == Path("output/net.bin").stat().st_size
    graph = info["graphs"][0]["info"]
    assert graph["graphName"] == "net"
    assert (graph["numGraphInputs"], graph["numGraphOutputs"]) == (1, 1)
    tensor = graph["graphInputs"][0]["info"]
    assert tensor == {
        "id": 0,
        "name": "x",
        "type": "QNN_TENSOR_TYPE_APP_WRITE",
        "dataFormat": "QNN_TENSOR_DATA_FORMAT_FLAT_BUFFER",
        "dataType": "QNN_DATATYPE_UFIXED_POINT_8",
        "memType": "QNN_TENSORMEMTYPE_RAW",
        "rank": 2,
        "dimensions": [2, 3],
        "isDynamicDimensions": [],
        "quantizeParams": {
            "definition": "QNN_DEFINITION_DEFINED",
            "quantizationEncoding": "QNN_QUANTIZATION_ENCODING_SCALE_OFFSET",
            "scaleOffset": {"scale": 0.5, "offset": -3},
        },
    }
    assert graph["graphOutputs"][0]["info"]["type"] == "QNN_TENSOR_TYPE_APP_READ"
    assert graph["graphBlobInfoV2"]["ioTensorSize"] == 12
    assert "info" not in graph["graphBlobInfoV2"]


def test_the_binary_is_not_overwritten(new_net: Any, run: Any) -> None:
    net = new_net()
    net.save(net.node("Relu", net.input("x", 2, 3), name="y"))
    info_of(run)
    before = Path("output/net.bin").read_bytes()
    given = ("--context-binary", "output/net.bin", "--json-file", "output/../output/net.bin")
    done = run("context-binary-utility", *given)
    assert done.code == 2
    assert "would overwrite the context binary" in done.err
    assert Path("output/net.bin").read_bytes() == before


@pytest.mark.parametrize(("bitwidth", "key"), [(None, "axisScaleOffset"), (4, "bwAxisScaleOffset")])
def test_encodings_along_an_axis(new_net: Any, run: Any, bitwidth: int | None, key: str) -> None:
    net = new_net()
    scales = np.array([0.5, 0.25, 2], "f4")
    encoding = AxisScaleOffset(1, scales, None, bitwidth)
    net.save(
        net.node(
            "Relu", net.input("x", 2, 3, dtype=DType.SFIXED_POINT_8, encoding=encoding), name="y"
        )
    )
    params = info_of(run)["graphs"][0]["info"]["graphInputs"][0]["info"]["quantizeParams"]
    assert params["quantizationEncoding"].endswith(
        "BW_AXIS_SCALE_OFFSET" if bitwidth else "_AXIS_SCALE_OFFSET"
    )
    if bitwidth is None:
        pairs = [{"scale": float(s), "offset": 0} for s in scales]
        assert params[key] == {"axis": 1, "numScaleOffsets": 3, "scaleOffset": pairs}
    else:
        wanted = {"bitwidth": 4, "axis": 1, "numElements": 3}
        assert params[key] == wanted | {"scales": scales.tolist(), "offsets": [0, 0, 0]}


def test_constants_and_updateable_tensors(new_net: Any, run: Any) -> None:
    net = new_net()
    weights = net.static("w", np.ones((64, 8), "f4"))
    weights.kind = TensorKind.UPDATEABLE_STATIC
    out = Tensor("y", DType.FLOAT_32, (2, 8))
    net.save(net.node("MatMul", net.input("x", 2, 64), weights, name="y", out=out))
    graph = info_of(run)["graphs"][0]["info"]
    assert graph["numUpdateableTensors"] == 1
    (tensor,) = (record["info"] for record in graph["updateableTensors"])
    assert (tensor["name"], tensor["type"]) == ("w", "QNN_TENSOR_TYPE_UPDATEABLE_STATIC")
    assert graph["graphBlobInfoV2"]["constSize"] >= 64 * 8 * 4
    assert graph["graphBlobInfoV2"]["sharedWeightsSize"] == 0
    without = info_of(run, "--no-embed-model")["graphs"][0]["info"]
    assert "constSize" not in without["graphBlobInfoV2"]


@pytest.mark.parametrize("missing", ["--context-binary", "--json-file"])
def test_both_options_are_required(run: Any, missing: str) -> None:
    given = {"--context-binary": "a.bin", "--json-file": "o.json"}
    del given[missing]
    done = run("context-binary-utility", *(word for pair in given.items() for word in pair))
    assert done.code == 2
    assert missing in done.err


def test_other_files_are_refused(two_steps: str, run: Any, entries: Any) -> None:
    Path("text.bin").write_text("text")
    before = entries()
    for name in (two_steps, "text.bin", "none.bin"):
        done = run("context-binary-utility", "--context-binary", name, "--json-file", "o.json")
        assert done.code == 3, done.err
    assert entries() == before
