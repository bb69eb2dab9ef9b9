"""AIMET as the quantizer: with its package, and what is said without it."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from quantizing import decisions, dense, encoding, model_of, new_graph, output, quantized

from dovetail.cli import main
from dovetail.errors import ConfigError, QuantizationError
from dovetail.ir import AxisScaleOffset, Graph, ScaleOffset
from dovetail_opset.build import add

RNG = np.random.default_rng(47)
WEIGHT = RNG.standard_normal((3, 4)).astype(np.float32)
SAMPLES = RNG.standard_normal((8, 1, 4)).astype(np.float32)


def layer() -> Graph:
    return dense(WEIGHT, np.ones(3, np.float32))


@pytest.fixture
def without_aimet(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("aimet_onnx", "aimet_onnx.quantsim"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.usefixtures("without_aimet")
def test_without_the_package_the_error_says_how(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "net.dvt"
    model_of(layer()).save(model)
    assert main(["quantize", "-i", str(model), "--use_aimet_quantizer"]) == 2
    said = capsys.readouterr().err
    assert "AIMET is not installed" in said
    assert "pip install aimet-onnx" in said
    assert not list(tmp_path.glob("*.quantized.dvt"))


def test_options_that_exclude_it_are_listed() -> None:
    options: dict[str, Any] = {
        "float_bitwidth": 16,
        "float_bias_bitwidth": 32,
        "disable_relu_squashing": True,
        "restrict_quantization_steps": "-0x80 0x7F",
        "float_fallback": True,
        "use_dynamic_16_bit_weights": True,
        "pack_4_bit_weights": True,
        "weights_bitwidth": 4,
    }
    with pytest.raises(ConfigError) as caught:
        quantized(layer(), SAMPLES, use_aimet_quantizer=True, **options)
    (problem,) = caught.value.problems
    assert all(name in problem.message for name in options.keys() - {"weights_bitwidth"})


def test_an_estimator_that_it_lacks() -> None:
    with pytest.raises(ConfigError, match="no counterpart of act_quantizer_calibration mse"):
        quantized(layer(), SAMPLES, use_aimet_quantizer=True, act_quantizer_calibration="mse")


@pytest.fixture
def aimet() -> None:
    """Skip where AIMET is not installed: it requires torch, which the tests do not install."""
    try:
        importlib.import_module("aimet_onnx.quantsim")
    except ImportError as error:
        pytest.skip(f"AIMET is not installed: {error}")


pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of packages of AIMET


@pytest.mark.usefixtures("aimet")
def test_its_extremes_are_ours() -> None:
    made = quantized(layer(), SAMPLES, use_aimet_quantizer=True, bias_bitwidth=32)
    own = quantized(layer(), SAMPLES, bias_bitwidth=32)
    for name in ("x", "w"):
        found, wanted = encoding(made, name), encoding(own, name)
        assert found.scale == pytest.approx(wanted.scale, rel=1e-6)  # of other sums in float32
        assert found.offset == wanted.offset
    # AIMET calibrates with quantized weights
    assert encoding(made, "y").scale == pytest.approx(encoding(own, "y").scale, rel=0.02)
    whys = {n: d.why for n, d in decisions(layer(), SAMPLES, use_aimet_quantizer=True).items()}
    assert whys["x"] == whys["w"] == whys["y"] == "chosen by AIMET"


@pytest.mark.usefixtures("aimet")
def test_its_channels_are_ours() -> None:
    made = quantized(layer(), SAMPLES, use_aimet_quantizer=True, use_per_row_quantization=True)
    found = made.tensor("w").encoding
    assert isinstance(found, AxisScaleOffset)
    # AIMET's grid reaches the maximum with 127 or with 128 steps
    np.testing.assert_allclose(found.scales, np.abs(WEIGHT).max(axis=1) / 127, rtol=1 / 127)


@pytest.mark.usefixtures("aimet")
def test_entries_of_the_user_come_first(tmp_path: Path) -> None:
    given = {"y": {"bitwidth": 8, "scale": 0.5, "offset": 0}}
    path = tmp_path / "given.json"
    path.write_text(json.dumps({"activation_encodings": given, "param_encodings": {}}))
    made = quantized(layer(), SAMPLES, use_aimet_quantizer=True, quantization_overrides=path)
    assert encoding(made, "y") == ScaleOffset(0.5, 0)


@pytest.mark.usefixtures("aimet")
def test_it_needs_samples_that_can_be_read_again() -> None:
    for samples, said in ((None, "there are none"), (iter(SAMPLES), "only once")):
        with pytest.raises(QuantizationError, match=said):
            quantized(layer(), samples, use_aimet_quantizer=True)


@pytest.mark.usefixtures("aimet")
def test_what_onnx_names_otherwise() -> None:
    """A tensor whose layout changes has another name in the exported model."""
    graph, x = new_graph((1, 4, 4, 2))
    pooled = add(
        graph,
        "PoolAvg2d",
        [x],
        name="pool",
        filter_size=[2, 2],
        stride=[2, 2],
        pad_amount=[[0, 0]] * 2,
    )
    output(add(graph, "ElementWiseNeg", [pooled], name="y"))
    found = decisions(graph, RNG.standard_normal((4, 1, 4, 4, 2)), use_aimet_quantizer=True)
    assert found["pool"].why == "chosen by AIMET"
