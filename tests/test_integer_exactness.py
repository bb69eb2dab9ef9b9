"""Imported quantized networks: convolutions are exact integers, rounded as ONNX does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
from quantized_models import RNG, Floats, Reader, converted, network, node, only_graph, saved
from runtime import peer_session

import dovetail as dt
from dovetail.ir import Array, Graph, Node, ScaleOffset, Tensor, TensorKind

START = RNG.bit_generator.state
LAYERS = 8


def separable(path: Path) -> Path:
    """Depthwise and pointwise convolutions in turns, each with a Relu: no other sums."""
    nodes, numbers, x, channels = [], {}, "x", 3
    for i in range(LAYERS):
        groups, width = (channels, channels) if i % 2 else (1, 16)
        shape = (
            (width, channels // groups, 3, 3) if i % 3 != 2 else (width, channels // groups, 1, 1)
        )
        fan = np.prod(shape[1:])
        numbers |= {
            f"w{i}": (RNG.standard_normal(shape) * np.sqrt(2 / fan)).astype(np.float32),
            f"b{i}": (RNG.standard_normal(width) / 4).astype(np.float32),
        }
        pads = [shape[2] // 2] * 4
        nodes += [
            node("Conv", f"{x} w{i} b{i}", f"c{i}", pads=pads, group=groups),
            node("Relu", f"c{i}", f"r{i}" if i < LAYERS - 1 else "y"),
        ]
        x, channels = f"r{i}", width
    return saved(path, nodes, (1, 3, 20, 20), numbers, opset=17)


@pytest.fixture(autouse=True)
def _same_numbers_in_any_order() -> None:
    RNG.bit_generator.state = START


def quantized(source: Path, form: QuantFormat, activation: QuantType, samples: Floats) -> Path:
    """Return the path of a network that onnxruntime quantized."""
    target = source.with_name("quantized.onnx")
    quantize_static(
        source, target, Reader(samples), per_channel=True, quant_format=form,
        activation_type=activation, weight_type=QuantType.QInt8,
    )  # fmt: skip
    return target


def stored_values(model: dt.Model, sample: Floats) -> dict[str, Array]:
    """Return the stored values of all tensors that a run computes, and of its input."""
    graph = only_graph(model)
    for tensor in graph.tensors.values():
        if tensor.kind is TensorKind.NATIVE:
            tensor.kind = TensorKind.APP_READ
    (x,) = graph.inputs
    scale, zero = grid(x)
    stored = np.clip(np.rint(sample / scale) + zero, *x.dtype.stored_range())
    feeds = {x.name: stored.astype(x.dtype.storage)}
    with dt.Session(model) as session:
        return feeds | session.run(feeds, native=True)


def grid(tensor: Tensor) -> tuple[np.float32, int]:
    """Return the scale of a tensor, as ONNX stores it, and its zero point."""
    assert isinstance(tensor.encoding, ScaleOffset)
    return np.float32(tensor.encoding.scale), -tensor.encoding.offset


def exact(item: Node, values: Mapping[str, Array]) -> NDArray[np.int64]:
    """Return what a convolution computes: integers, one multiplication, rounded half to even."""
    x, weight, bias = (*item.inputs, None)[:3]
    out = item.outputs[0]
    assert x is not None
    assert weight is not None
    (x_scale, x_zero), (y_scale, y_zero) = grid(x), grid(out)
    assert weight.encoding is not None
    scales, offsets = weight.encoding.scales_and_offsets(weight.shape)
    filters = weight.stored().astype(np.int64) + offsets.astype(np.int64)
    before, after = (int(n) for n in item.params["pad_amount"].stored()[0])
    window = np.pad(
        values[x.name].astype(np.int64) - x_zero, [(0, 0), (before, after), (before, after), (0, 0)]
    )
    height, width = out.shape[1:3]
    groups = x.shape[-1] // weight.shape[2]
    acc = np.zeros(out.shape, np.int64)
    for i, j in np.ndindex(weight.shape[:2]):
        part = window[:, i : i + height, j : j + width].reshape(*out.shape[:3], groups, -1)
        taps = filters[i, j].reshape(weight.shape[2], groups, -1)
        acc += np.einsum("nhwgi,igo->nhwgo", part, taps).reshape(out.shape)
    if bias is not None:
        acc += bias.stored().astype(np.int64)  # on the grid of the products
    factors = scales.astype(np.float64).reshape(-1) * float(x_scale) / float(y_scale)
    limits = out.dtype.stored_range()
    return np.asarray(np.clip(np.rint(acc * factors) + y_zero, *limits), np.int64)


def convolutions(graph: Graph) -> list[Node]:
    return [n for n in graph.nodes if n.op_type in ("Conv2d", "DepthWiseConv2d")]


def share_equal(ours: Array, wanted: Any) -> float:
    """Return the share of equal elements; raise if one is more than a step away."""
    apart = np.abs(ours.astype(np.int64) - wanted)
    assert apart.max(initial=0) <= 1
    return float(np.mean(apart == 0))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", list(QuantFormat), ids=lambda form: form.name)
@pytest.mark.parametrize("activation", [QuantType.QUInt8, QuantType.QInt8])
@pytest.mark.parametrize("make", [network, separable])
def test_convolutions_are_exact_integers(
    tmp_path: Path, make: Any, form: QuantFormat, activation: QuantType
) -> None:
    source = make(tmp_path / "net.onnx")
    (given,) = onnx.load(source).graph.input
    shape = [d.dim_value for d in given.type.tensor_type.shape.dim]
    samples = RNG.standard_normal((8, *shape)).astype(np.float32)
    made = converted(quantized(source, form, activation, samples))
    values = stored_values(made.model, samples[0])
    found = convolutions(only_graph(made.model))
    assert len(found) == (3 if make is network else LAYERS)
    for item in found:
        ours = values[item.outputs[0].name]
        assert share_equal(ours, exact(item, values)) >= 0.99, item.name
        assert len(np.unique(ours)) > 20, item.name


@pytest.mark.filterwarnings("ignore")
def test_differences_do_not_grow_through_a_network(tmp_path: Path) -> None:
    source = separable(tmp_path / "net.onnx")
    samples = RNG.standard_normal((8, 1, 3, 20, 20)).astype(np.float32)
    path = quantized(source, QuantFormat.QOperator, QuantType.QUInt8, samples)
    made = converted(path)
    model = onnx.load(path)
    names = [n.output[0] for n in model.graph.node if n.op_type == "QLinearConv"]
    outputs = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.UINT8, None) for n in names]
    del model.graph.output[:]
    model.graph.output.extend(outputs)
    onnx.save(model, path)
    peer = peer_session(path, optimized=True)
    sources = {
        item.outputs[0].source: item.outputs[0].name
        for item in convolutions(only_graph(made.model))
    }
    for sample in samples[:2]:
        ours = stored_values(made.model, sample)
        theirs = dict(zip(names, peer.run(names, {"x": sample}), strict=True))
        assert len(theirs) == LAYERS
        for name, wanted in theirs.items():
            found = ours[sources[name]]
            assert share_equal(found, wanted.transpose(0, 2, 3, 1).astype(np.int64)) >= 0.99, name
