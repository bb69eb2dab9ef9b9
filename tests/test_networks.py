"""Whole networks against ONNX Runtime, through a `.dvt` file, by the five names users need."""

from __future__ import annotations

import functools
from pathlib import Path

import networks
import numpy as np
import onnx
import onnxruntime
import pytest

import dovetail
from dovetail.errors import PluginError
from dovetail.ops import EVERYTHING, NOTHING
from dovetail_onednn import checked_library

ROOT = Path(__file__).parents[1]
# Float32 sums of a few thousand products, in another order, through up to 53 convolutions.
RELATIVE = 1e-4

# Its 1000 logits are equal numbers near 7e9, where neighboring floats are 512 apart, so that the
# softmax makes one-hot of one last bit. NumPy's OpenBLAS rounds some equal columns of a product
# differently (measured with 0.3.31 on AVX-512: 48 of 64 columns), oneDNN does not.
SOFTMAX_OF_EQUALS = "squeezenet, constant fill, softmax"

# Besides what is the default: the other engine on every network; on those that are quick, every
# node by itself and every tensor in its place.
OTHER_ENGINE = {"engine": "numpy"}, NOTHING
ALONE = {"memory": "plain"}, EVERYTHING
QUICK = ("MobileNetV2", "MobileNetV3", "U-Net", "LSTM", "transformer encoder")
# Of classifiers that have 4096 hidden units, half a gigabyte of weights: ONNX's backend tests run
# those. The first layer's sums, the longest there are, stay as long.
HIDDEN = 512

CASES = {
    SOFTMAX_OF_EQUALS: lambda: networks.light("squeezenet"),
    "squeezenet, constant fill": lambda: networks.light("squeezenet", logits=True),
    "squeezenet, drawn": lambda: networks.light("squeezenet", seed=1, logits=True),
    "resnet50, drawn": lambda: networks.light("resnet50", seed=2, logits=True),
    **{
        f"{name}, drawn": functools.partial(
            networks.light, name, seed=3, logits=True, hidden=HIDDEN
        )
        for name in (
            "bvlc_alexnet",
            "densenet121",
            "inception_v1",
            "inception_v2",
            "shufflenet",
            "vgg19",
            "zfnet512",
        )
    },
    "MobileNetV2": lambda: networks.mobilenet_v2(size=96),
    "MobileNetV3": lambda: networks.mobilenet_v3(size=96),
    "gates": networks.gated,
    "U-Net": networks.unet,
    "LSTM": networks.lstm,
    "transformer encoder": networks.encoder,
}


def reference(model: bytes | str, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # the light networks have initializers that nothing uses
    session = onnxruntime.InferenceSession(model, options)
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs), strict=True))


def need_onednn() -> None:
    try:
        checked_library()
    except PluginError as error:
        pytest.skip(f"NumPy's BLAS rounds equal columns differently, and {error.message}")


def assert_close(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> None:
    assert ours.keys() == theirs.keys()
    for name, wanted in theirs.items():
        assert np.abs(wanted).max() > 0, "a network that gives zeros shows nothing"
        worst = np.abs(ours[name] - wanted).max() / np.abs(wanted).max()
        assert worst <= RELATIVE, f"{name}: {worst:.2e}"


@pytest.mark.parametrize("case", CASES)
def test_network_matches_onnxruntime(case: str, tmp_path: Path) -> None:
    if case == SOFTMAX_OF_EQUALS:
        need_onednn()
    model = CASES[case]()
    onnx.save(model, tmp_path / "net.onnx")
    dovetail.convert(tmp_path / "net.onnx").save(tmp_path / "net.dvt")
    rng = np.random.default_rng(0)
    with dovetail.Session(tmp_path / "net.dvt") as session:
        (graph,) = session.graphs.values()
        inputs = {t.name: rng.normal(0, 1, t.shape).astype(np.float32) for t in graph.inputs}
        ours = session.run(inputs)
    assert_close(ours, reference(str(tmp_path / "net.onnx"), inputs))
    others = [] if case == SOFTMAX_OF_EQUALS else [OTHER_ENGINE]
    others += [ALONE] if case in QUICK else []
    for options, observed in others:
        config = {"backend": {"cpu": options}}
        with dovetail.Session(tmp_path / "net.dvt", config=config, observed=observed) as session:
            assert_close(session.run(inputs), ours)


def test_channel_shuffles_cost_no_transposes(tmp_path: Path) -> None:
    onnx.save(networks.light("shufflenet"), tmp_path / "net.onnx")
    (graph,) = dovetail.convert(tmp_path / "net.onnx").graphs.values()
    ops = [node.op_type for node in graph.nodes]
    assert ops.count("ChannelShuffle") == 16
    assert ops.count("Transpose") == 1  # of the input


def test_drawn_weights_make_the_output_depend_on_the_input() -> None:
    model = networks.light("squeezenet", seed=1, logits=True)
    filled = {initializer.name for initializer in model.graph.initializer}
    (given,) = (i for i in model.graph.input if i.name not in filled)
    name, shape = given.name, [d.dim_value for d in given.type.tensor_type.shape.dim]
    rng = np.random.default_rng(0)
    first, second = (
        reference(model.SerializeToString(), {name: rng.normal(0, 1, shape).astype(np.float32)})
        for _ in range(2)
    )
    (output,) = first
    spread = np.abs(first[output] - second[output]).max() / np.abs(first[output]).max()
    assert spread > 100 * RELATIVE


def test_digits_match_on_every_held_out_image() -> None:
    path = ROOT / "examples" / "digits" / "digits.onnx"
    held_out = np.load(ROOT / "examples" / "digits" / "heldout.npz")
    images = held_out["images"].astype(np.float32)[:, None] / 16
    theirs = reference(str(path), {"image": images})["scores"]
    with dovetail.Session(path) as session:
        ours = np.concatenate([session.run({"image": image[None]})["scores"] for image in images])
    assert_close({"scores": ours}, {"scores": theirs})
    assert (ours.argmax(1) == held_out["labels"]).mean() >= 0.97
