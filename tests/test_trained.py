"""The trained networks of `examples/`: they convert, and are as good as their README says."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from trained import EXAMPLES, INPUT, OUTPUT, TRAINED, TrainedNetwork, calibration, held_out

import dovetail
from dovetail.ops.frontend import FrontendOptions

README = EXAMPLES / "trained" / "README.md"
ROW = re.compile(r"^\| `(?P<name>\w+)\.onnx` \|.*\| (?P<right>\d+) of 360 \|", re.MULTILINE)
# Scores are at most 7; float32 sums in another order come within 1e-5 of each other.
ABSOLUTE = 1e-4
networks = pytest.mark.parametrize("network", TRAINED.values(), ids=TRAINED)


def ops(network: TrainedNetwork) -> set[str]:
    return {node.op_type for node in onnx.load(network.path).graph.node}


@networks
def test_it_converts_agrees_with_onnxruntime_and_is_as_good_as_said(
    network: TrainedNetwork,
) -> None:
    images, labels = held_out()
    peer = onnxruntime.InferenceSession(network.path, providers=["CPUExecutionProvider"])
    (theirs,) = peer.run([OUTPUT], {INPUT: images})
    model = dovetail.convert(network.path, FrontendOptions(batch=len(images)))
    with dovetail.Session(model) as session:
        ours = session.run({INPUT: images})[OUTPUT]
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=ABSOLUTE)
    assert network.count_right(ours) == network.right
    assert network.right >= 0.97 * len(labels)


def test_the_readme_says_what_the_tests_count() -> None:
    rows = {row["name"]: int(row["right"]) for row in ROW.finditer(README.read_text("utf-8"))}
    assert rows == {network.name: network.right for network in TRAINED.values()}


@networks
def test_it_takes_one_image_as_it_takes_many(network: TrainedNetwork) -> None:
    images = calibration(3)
    with dovetail.Session(dovetail.convert(network.path, FrontendOptions(batch=3))) as session:
        together = session.run({INPUT: images})[OUTPUT]
    with dovetail.Session(network.path) as session:
        alone = [session.run({INPUT: image[None]})[OUTPUT] for image in images]
    np.testing.assert_allclose(np.concatenate(alone), together, rtol=0, atol=ABSOLUTE)


def test_no_held_out_image_serves_calibration() -> None:
    images, _ = held_out()
    chosen = {image.tobytes() for image in calibration()}
    assert len(chosen) == 200
    assert not chosen & {image.tobytes() for image in images}
    with pytest.raises(ValueError, match="200 images"):
        calibration(201)


def test_each_ten_calibration_images_hold_every_digit() -> None:
    with np.load(EXAMPLES / "trained" / "calibration.npz") as file:
        digits = file["labels"].reshape(-1, 10)
    assert (np.sort(digits, axis=1) == np.arange(10)).all()


def test_the_networks_have_the_layers_that_they_are_for() -> None:
    assert {"BatchNormalization", "Clip"} <= ops(TRAINED["depthwise"])
    groups = [
        attribute.i
        for node in onnx.load(TRAINED["depthwise"].path).graph.node
        for attribute in node.attribute
        if node.op_type == "Conv" and attribute.name == "group"
    ]
    assert sorted(groups)[-3:] == [64, 64, 96]
    assert {"LayerNormalization", "Gelu", "Softmax", "MatMul"} <= ops(TRAINED["attention"])
    assert "LSTM" in ops(TRAINED["recurrent"])


def test_channels_of_the_scaled_network_differ_by_thousands() -> None:
    weights = {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in onnx.load(TRAINED["scaled"].path).graph.initializer
    }
    for name in ("conv1", "conv2", "conv3", "conv4"):
        weight = weights[f"{name}/weight"]
        greatest = np.abs(weight).reshape(len(weight), -1).max(axis=1)
        assert greatest.max() / greatest.min() > 1000, name


def test_one_scale_a_tensor_breaks_the_scaled_network_and_not_the_depthwise_one() -> None:
    script = EXAMPLES / "trained" / "quantize_with_onnxruntime.py"
    done = subprocess.run(
        [sys.executable, str(script), "scaled", "depthwise", "--scheme", "per-tensor"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^(\w+) +per-tensor +(\d+) of 360", done.stdout, re.MULTILINE)
    lost = {name: TRAINED[name].right - int(right) for name, right in rows}
    assert lost.keys() == {"scaled", "depthwise"}, done.stdout
    # 18 images are 5 points.
    assert lost["scaled"] > 18 > lost["depthwise"]
