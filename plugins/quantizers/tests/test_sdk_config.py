"""The SDK's YAML file of the quantizer: its algorithms are ours of the same purpose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from quantizing import dense, model_of, quantized

from dovetail.api.quantization import quantize_with_report
from dovetail.errors import ConfigError
from dovetail.ir import Graph
from dovetail.quantization import options_from
from dovetail_quantizers.sdk_config import with_config

RNG = np.random.default_rng(43)
SAMPLES = RNG.standard_normal((16, 1, 8)).astype(np.float32)
FILE = """
aimet_quantizer:
  datasets:
    images: {dataloader_callback: data.images, dataloader_kwargs: {root: /data}}
  adaround: {dataset: images, num_batches: 5}
  amp:
    dataset: images
    candidates: [[[8, int], [16, int]], [[16, int], [4, int]], [[16, float], [16, float]]]
    allowed_accuracy_drop: 0.1
"""


def layer() -> Graph:
    weight = np.random.default_rng(7).standard_normal((6, 8)).astype(np.float32)
    return dense(weight, np.ones(6, np.float32))


def written(path: Path, text: str) -> Path:
    file = path / "quantizer.yaml"
    file.write_text(text)
    return file


def test_algorithms_and_parameters(tmp_path: Path) -> None:
    path = written(tmp_path, FILE)
    made, notes = with_config(options_from({"config_file": path}))
    assert made.algorithms == ("mixed-precision", "adaround")
    assert made.algorithm_params == {
        "mixed-precision": {"candidates": "w16a8,w4a16,fp16"}, "adaround": {"samples": 5},
    }  # fmt: skip
    assert len(notes) == 2


def test_options_come_before_the_file(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "config_file": written(tmp_path, FILE),
        "algorithms": ["cle", "adaround"],
        "algorithm_params": {"adaround": {"samples": 3, "seed": 1}},
    }
    made, _ = with_config(options_from(given))
    assert made.algorithms == ("cle", "adaround", "mixed-precision")
    assert made.algorithm_params["adaround"] == {"samples": 3, "seed": 1}


def test_the_graph_is_that_of_the_algorithm(tmp_path: Path) -> None:
    text = "aimet_quantizer: {datasets: {d: {dataloader_callback: f}}, adaround: {dataset: d}}"
    path = written(tmp_path, text)
    options = {"weights_bitwidth": 4, "skip_algorithm_check": True}
    report = quantize_with_report(model_of(layer()), SAMPLES, config_file=path, **options)
    learnt = report.model.graphs["net"].tensor("w").stored()
    named = quantized(layer(), SAMPLES, algorithms=["adaround"], **options)
    np.testing.assert_array_equal(learnt, named.tensor("w").stored())
    plain = quantized(layer(), SAMPLES, **options | {"skip_algorithm_check": False})
    assert np.any(learnt != plain.tensor("w").stored())
    assert any("data sets are not loaded" in note for note in report.report.notes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("aimet_quantizer: {adaround: {dataset: d}}", "data set 'd' not found"),
        ("aimet_quantizer: {adarond: {}}", "adarond"),
        ("act_bitwidth: 16", "act_bitwidth"),
        ("aimet_quantizer: {adaround: {dataset: d, num_batches: 0}}", "num_batches"),
        ("[1]", "expected a mapping"),
        (FILE.replace("[4, int]", "[4, float]"), "unsupported precision"),
        (FILE.replace("[[8, int]", "[[4, int]"), "unsupported precision"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        quantized(layer(), SAMPLES, config_file=written(tmp_path, text))
    assert said in str(caught.value) + " ".join(map(str, caught.value.problems))
