"""Train the digits network and write ``digits.onnx`` and ``heldout.npz``.

Both files are committed, so Dovetail does not need this script; it documents their origin and can
create them again. It needs two packages that Dovetail does not depend on, and ``onnx`` and
``onnxruntime``. In a separate virtual environment::

    pip install torch==2.13.0 scikit-learn onnx onnxruntime     # the CPU build of torch is enough
    python examples/digits/train.py                             # about 15 seconds on one core

The data are the 1,797 images in scikit-learn (``load_digits``; nothing is downloaded). First, 360
of them, stratified by digit, are held out. The recipe (widths, schedule, augmentation) was selected
only with ``--cross-validate``, which does not use these 360. The final training runs a fixed number
of epochs and keeps the last weights, so it makes no choice on them either.

Seed, thread count and algorithms are fixed: on one machine with one set of package versions a
second run writes the same bytes; elsewhere rounding may differ, the accuracy should not.
"""

import argparse
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold, train_test_split
from torch import Tensor, nn
from torch.nn import functional

SEED = 20
HELD_OUT_IMAGES = 360
MIN_ACCURACY = 0.985
MAX_MODEL_BYTES = 300_000
EPOCHS = 80
BATCH = 64
PEAK_LEARNING_RATE = 4e-3
WIDTH, HEAD_WIDTH, CLASSES = 32, 64, 10


class DigitsNet(nn.Module):
    """A small residual network: from image ``(n, 1, 8, 8)`` in 0..1 to scores ``(n, 10)``.

    The last convolution has a bias and no batch normalization, the others the reverse, so that the
    model has both forms.
    """

    def __init__(self) -> None:
        """Create the layers with torch's default initial weights."""
        super().__init__()
        self.stem_conv = nn.Conv2d(1, WIDTH, 3, padding=1, bias=False)
        self.stem_bn = nn.BatchNorm2d(WIDTH)
        self.block1_conv1 = nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False)
        self.block1_bn1 = nn.BatchNorm2d(WIDTH)
        self.block1_conv2 = nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False)
        self.block1_bn2 = nn.BatchNorm2d(WIDTH)
        self.head_conv = nn.Conv2d(WIDTH, HEAD_WIDTH, 3, padding=1)
        self.head_gemm = nn.Linear(HEAD_WIDTH, CLASSES)

    def forward(self, image: Tensor) -> Tensor:
        """Return unnormalized scores ``(n, 10)``; their softmax would be the probabilities."""
        x = functional.relu(self.stem_bn(self.stem_conv(image)))
        y = functional.relu(self.block1_bn1(self.block1_conv1(x)))
        x = functional.relu(x + self.block1_bn2(self.block1_conv2(y)))
        x = functional.relu(self.head_conv(functional.max_pool2d(x, 2)))
        scores: Tensor = self.head_gemm(x.mean(dim=(2, 3)))
        return scores


def augment(images: Tensor) -> Tensor:
    """Rotate, scale, shear and shift each image ``(n, 1, 8, 8)`` by small random amounts.

    Up to 12 degrees, 10 %, a shear of 0.15 and 0.8 pixels: about the variation of handwriting. More
    would move strokes, which reach the border of an 8x8 image, out of it.
    """
    n = images.shape[0]
    angle, log_scale, slant = (torch.rand(3, n) * 2 - 1) * torch.tensor(
        [[math.radians(12)], [0.1], [0.15]]
    )
    shift = (torch.rand(2, n) * 2 - 1) * (0.8 / 4)  # grid_sample's unit is half an image: 4 pixels
    cos, sin, scale = angle.cos(), angle.sin(), log_scale.exp()
    rows = [scale * cos, scale * (slant * cos - sin), shift[0]]
    rows += [scale * sin, scale * (slant * sin + cos), shift[1]]
    grid = functional.affine_grid(torch.stack(rows, 1).reshape(n, 2, 3), list(images.shape), False)
    return functional.grid_sample(
        images, grid, mode="bilinear", padding_mode="zeros", align_corners=False
    )


def as_input(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Convert images ``(n, 8, 8)``, 0..16, to the network's input ``(n, 1, 8, 8)``, 0..1."""
    return (images[:, None].astype(np.float32) / 16).astype(np.float32)


def split() -> list[NDArray[np.uint8]]:
    """Return the training images, the held-out images, and the labels of both."""
    data = load_digits()
    parts: list[NDArray[np.uint8]] = train_test_split(
        data.images.astype(np.uint8),
        data.target.astype(np.uint8),
        test_size=HELD_OUT_IMAGES,
        stratify=data.target,
        random_state=SEED,
    )
    return parts


def train(
    images: NDArray[np.uint8],
    labels: NDArray[np.uint8],
    make_net: Callable[[], nn.Module] = DigitsNet,
    *,
    epochs: int = EPOCHS,
    peak_learning_rate: float = PEAK_LEARNING_RATE,
) -> nn.Module:
    """Train from scratch on images ``(n, 8, 8)``, labels ``(n,)``; the net is in eval mode."""
    torch.manual_seed(SEED)
    x, y = torch.from_numpy(as_input(images)), torch.from_numpy(labels.astype(np.int64))
    net = make_net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=peak_learning_rate, weight_decay=1e-2)
    steps = epochs * (len(x) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, peak_learning_rate, steps)
    for _ in range(epochs):
        order = torch.randperm(len(x))
        for step in range(len(x) // BATCH):  # the last, shorter batch would have noisy statistics
            picked = order[step * BATCH : (step + 1) * BATCH]
            loss = functional.cross_entropy(
                net(augment(x[picked])), y[picked], label_smoothing=0.05
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return net.eval()


class GraphWriter:
    """Collects ONNX nodes and their weights; a node's output tensor has the node's name."""

    def __init__(self) -> None:
        """Start empty."""
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def node(
        self,
        op: str,
        name: str,
        *inputs: str,
        weights: Mapping[str, Tensor | None] | None = None,
        output: str = "",
        **attributes: Any,
    ) -> str:
        """Add a node with the tensors ``inputs``, then its ``weights``; return its output."""
        given = {f"{name}/{part}": w for part, w in (weights or {}).items() if w is not None}
        for key, weight in given.items():
            self.weights.append(numpy_helper.from_array(weight.detach().numpy(), key))
        names = [*inputs, *given]
        self.nodes.append(helper.make_node(op, names, [output or name], name=name, **attributes))
        return output or name

    def conv(self, name: str, layer: nn.Conv2d, x: str) -> str:
        """Add a 3x3 convolution of stride 1 that keeps the size."""
        weights = {"weight": layer.weight, "bias": layer.bias}
        shape: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [1, 1]}
        return self.node("Conv", name, x, weights=weights, **shape)

    def norm(self, name: str, layer: nn.BatchNorm2d, x: str) -> str:
        """Add a batch normalization with the running statistics of training."""
        weights: dict[str, Tensor | None] = {"scale": layer.weight, "bias": layer.bias}
        weights |= {"mean": layer.running_mean, "var": layer.running_var}
        return self.node("BatchNormalization", name, x, weights=weights, epsilon=layer.eps)


def to_onnx(net: DigitsNet) -> onnx.ModelProto:
    """Write the trained network as ONNX, one node per layer, nothing folded or fused."""
    w = GraphWriter()
    x = w.norm("stem/bn", net.stem_bn, w.conv("stem/conv", net.stem_conv, "image"))
    x = w.node("Relu", "stem/relu", x)
    y = w.norm("block1/bn1", net.block1_bn1, w.conv("block1/conv1", net.block1_conv1, x))
    y = w.node("Relu", "block1/relu1", y)
    y = w.norm("block1/bn2", net.block1_bn2, w.conv("block1/conv2", net.block1_conv2, y))
    x = w.node("Relu", "block1/relu2", w.node("Add", "block1/add", x, y))
    x = w.node("MaxPool", "block1/pool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = w.node("Relu", "head/relu", w.conv("head/conv", net.head_conv, x))
    x = w.node("Flatten", "head/flatten", w.node("GlobalAveragePool", "head/pool", x), axis=1)
    gemm = {"weight": net.head_gemm.weight, "bias": net.head_gemm.bias}
    w.node("Gemm", "head/gemm", x, weights=gemm, output="scores", transB=1)

    return model_of(w, "digits", "examples/digits/train.py")


def model_of(w: GraphWriter, name: str, producer: str, opset: int = 17) -> onnx.ModelProto:
    """Return the model of all nodes, from the tensor ``image`` to the tensor ``scores``."""
    graph = helper.make_graph(
        w.nodes,
        name,
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", CLASSES])],
        w.weights,
    )
    opsets = [helper.make_opsetid("", opset)]
    version = 9 if opset > 18 else 8
    return helper.make_model(
        graph, opset_imports=opsets, ir_version=version, producer_name=producer
    )


def onnx_accuracy(
    model: bytes, net: nn.Module, images: NDArray[np.uint8], labels: NDArray[np.uint8]
) -> float:
    """Return the top-1 accuracy (0..1) in onnxruntime, after a comparison with ``net``."""
    x = as_input(images)
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    scores = np.asarray(session.run(["scores"], {"image": x})[0])
    with torch.no_grad():
        expected = net(torch.from_numpy(x)).numpy()
    # Scores are of size 10; 1e-3 is far above float32 rounding and far below any wrong wiring.
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-3)
    return float(np.mean(scores.argmax(axis=1) == labels))


def cross_validate(
    images: NDArray[np.uint8],
    labels: NDArray[np.uint8],
    fit_net: Callable[[NDArray[np.uint8], NDArray[np.uint8]], nn.Module] = train,
) -> None:
    """Print the accuracy of the recipe on each of five folds of the training images."""
    folds = StratifiedKFold(5, shuffle=True, random_state=SEED).split(images, labels)
    accuracies = []
    for number, (fit, check) in enumerate(folds, start=1):
        net = fit_net(images[fit], labels[fit])
        with torch.no_grad():
            guess = net(torch.from_numpy(as_input(images[check]))).argmax(1).numpy()
        accuracies.append(float(np.mean(guess == labels[check])))
        print(f"fold {number}: {accuracies[-1]:.2%} of {len(check)}", flush=True)
    print(f"mean: {np.mean(accuracies):.2%}")


def run_script(
    name: str,
    folder: Path,
    fit: Callable[[NDArray[np.uint8], NDArray[np.uint8]], nn.Module],
    to_onnx: Callable[[Any], onnx.ModelProto],
    data: tuple[str, Callable[..., Mapping[str, NDArray[np.uint8]]]],
    limits: tuple[float, int],
) -> int:
    """Run a training script; return 1, and write nothing, if the model misses a target.

    Args:
        name: Name of the network and of its file.
        folder: Default folder of the files.
        fit: Trains on images ``(n, 8, 8)`` and labels ``(n,)``.
        to_onnx: Returns the trained network as ONNX.
        data: Name of an `.npz` to write, and a function that returns its arrays from `split`.
        limits: The minimum accuracy, 0..1, and an upper bound of the model's bytes.
    """
    parser = argparse.ArgumentParser(description=f"Create {name}.onnx and {data[0]}.")
    parser.add_argument("--out", type=Path, default=folder, help="folder to write")
    parser.add_argument("--cross-validate", action="store_true", help="five folds, no files")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)

    parts = split()
    images, held_images, labels, held_labels = parts
    if arguments.cross_validate:
        cross_validate(images, labels, fit)
        return 0

    net = fit(images, labels)
    model = to_onnx(net)
    onnx.checker.check_model(model, full_check=True)
    content = model.SerializeToString(deterministic=True)
    accuracy = onnx_accuracy(content, net, held_images, held_labels)
    right = round(accuracy * HELD_OUT_IMAGES)
    print(f"held-out top-1: {accuracy:.2%} ({right} of {HELD_OUT_IMAGES}); {len(content)} bytes")
    min_accuracy, max_model_bytes = limits
    if accuracy < min_accuracy or len(content) >= max_model_bytes:
        print(f"expected {min_accuracy:.1%} and under {max_model_bytes} bytes", file=sys.stderr)
        return 1
    (arguments.out / f"{name}.onnx").write_bytes(content)
    np.savez_compressed(arguments.out / data[0], **data[1](*parts))
    return 0


def held_out(
    images: NDArray[np.uint8],
    held_images: NDArray[np.uint8],
    labels: NDArray[np.uint8],
    held_labels: NDArray[np.uint8],
) -> dict[str, NDArray[np.uint8]]:
    """Return the arrays of the held-out images."""
    return {"images": held_images, "labels": held_labels}


def main() -> int:
    """Run the script; return 1, and write nothing, if the model misses a target."""
    limits = MIN_ACCURACY, MAX_MODEL_BYTES
    data = "heldout.npz", held_out
    return run_script("digits", Path(__file__).parent, train, to_onnx, data, limits)


if __name__ == "__main__":
    sys.exit(main())
