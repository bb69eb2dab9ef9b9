"""Files as people write them: comments, bare objects, names with `:0`, bitwidths at the top."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from quantizing import dense, encoding, model_of, new_graph, output, quantized

from dovetail.api.quantization import quantize_with_report
from dovetail.errors import QuantizationError
from dovetail.ir import DType, Graph, ScaleOffset
from dovetail_opset.build import add, static
from dovetail_quantizers.files import dump_encodings, parse_encodings, read_encodings

SAMPLES = np.random.default_rng(3).standard_normal((4, 1, 2)).astype(np.float32)
# The file of a public tutorial, with its comment and its rounded numbers.
TUTORIAL = """// quantization_config.json
{
  "activation_encodings": {
    "conv1/Relu:0": {
      "bitwidth": 8,
      "max": 6.0,
      "min": 0.0,
      "scale": 0.023529,
      "offset": 0
    }
  },
  "param_encodings": {
    "conv1.weight": {
      "bitwidth": 8,
      "max": 2.5,
      "min": -2.5,
      "scale": 0.019608,
      "offset": 127
    }
  },
  "activation_bitwidth": 8,
  "param_bitwidth": 8,
  "bias_bitwidth": 32
}
"""


def network(result: str = "conv1/Relu") -> Graph:
    graph, x = new_graph((1, 2))
    weight = static(graph, "conv1.weight", np.array([[2.5, -2.5], [1.0, 0.5]], np.float32))
    bias = static(graph, "conv1.bias", np.array([0.5, -1], np.float32))
    made = add(graph, "FullyConnected", [x, weight, bias], name="conv1")
    output(add(graph, "Relu", [made], name=result))
    return graph


@pytest.mark.parametrize("name", ["conv1/Relu", "conv1/Relu:0"])
def test_the_file_of_the_tutorial(tmp_path: Path, name: str) -> None:
    path = tmp_path / "quantization_config.json"
    path.write_text(TUTORIAL)
    made = quantize_with_report(model_of(network(name)), SAMPLES, quantization_overrides=path)
    graph = made.model.graphs["net"]
    assert encoding(graph, name) == ScaleOffset(float(np.float32(0.023529)))
    assert encoding(graph, "conv1.weight") == ScaleOffset(float(np.float32(0.019608)), -127)
    np.testing.assert_array_equal(graph.tensor("conv1.weight").stored()[0], [254, 0])
    assert graph.tensor("conv1.bias").dtype is DType.SFIXED_POINT_32
    assert name not in made.report.uncovered["net"]


def test_comments_and_what_looks_like_them(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(
        '{"activation_encodings": { /* two\n lines */ "a//b /* c */\\"": // "x": [\n'
        '[{"bitwidth": 16}]}, "param_encodings": {}} // end'
    )
    assert list(read_encodings(path).entries) == ['a//b /* c */"']


@pytest.mark.parametrize(
    ("text", "where"),
    [('// one\n/* two\n*/ {"a" 1}', "x.json:3:9"), ('{"a": 1 /* no end }\n', "x.json:2:1")],
)
def test_a_fault_after_a_comment_has_its_position(tmp_path: Path, text: str, where: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(QuantizationError) as caught:
        parse_encodings(path)
    assert caught.value.where.endswith(where)


def written(path: Path, **top: Any) -> Path:
    file = path / "given.json"
    file.write_text(json.dumps({"activation_encodings": {}, "param_encodings": {}} | top))
    return file


def test_bitwidths_count_unless_the_options_set_them(tmp_path: Path) -> None:
    path = written(tmp_path, activation_bitwidth=16, param_bitwidth=4, bias_bitwidth=32)
    graph = dense(np.ones((2, 2), np.float32), np.ones(2, np.float32))
    made = quantized(graph, SAMPLES, quantization_overrides=path)
    assert made.tensor("y").dtype is DType.UFIXED_POINT_16
    assert encoding(made, "w").bitwidth == 4
    assert made.tensor("b").dtype is DType.SFIXED_POINT_32
    made = quantized(graph, SAMPLES, quantization_overrides=path, act_bitwidth=8, bias_bitwidth=8)
    assert made.tensor("y").dtype is made.tensor("b").dtype is DType.UFIXED_POINT_8
    assert encoding(made, "w").bitwidth == 4


def test_bitwidths_are_written_again(tmp_path: Path) -> None:
    file = read_encodings(written(tmp_path, param_bitwidth=4))
    for version in ("0.6.1", "1.0.0"):
        again = tmp_path / "again.json"
        again.write_text(dump_encodings(file, version).text)
        assert read_encodings(again).bitwidths == {"param_bitwidth": 4}
    (note,) = dump_encodings(file, "2.0.0").notes
    assert "'param_bitwidth'" in note.message


def test_an_exact_name_comes_first(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        activation_encodings={
            name: {"bitwidth": 8, "scale": scale, "offset": 0}
            for name, scale in {"y": 0.5, "y:0": 0.25}.items()
        },
    )
    graph = dense(np.ones((2, 2), np.float32), None)
    with pytest.raises(QuantizationError, match="1 of 2 entries match no tensor") as caught:
        quantized(graph, SAMPLES, quantization_overrides=path)
    assert "entry 'y:0'" in caught.value.problems[0].where
    made = quantized(graph, SAMPLES, quantization_overrides=path, lenient=True)
    assert encoding(made, "y") == ScaleOffset(0.5)
