"""Whole small networks against ONNX Runtime."""

from __future__ import annotations

import numpy as np
from onnx import helper

F32, I64 = np.float32, np.int64
N = helper.make_node
HEADS, WIDTH, LENGTH = 4, 32, 10


def encoder_layer(k: int, rng, known: dict) -> list:
    """Nodes of a post-norm transformer encoder layer from h<k> to h<k+1>."""

    def weight(name, *shape):
        known[f"{name}{k}"] = (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(F32)
        return f"{name}{k}"

    def linear(x, y, rows, columns):
        product, bias = weight(f"{y}.w", rows, columns), weight(f"{y}.b", columns)
        return [
            N("MatMul", [x, product], [f"{y}.m{k}"]),
            N("Add", [bias, f"{y}.m{k}"], [f"{y}{k}"]),
        ]

    nodes = []
    for name in "qkv":
        nodes += linear(f"h{k}", name, WIDTH, WIDTH)
        order = [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]
        nodes += [
            N("Reshape", [f"{name}{k}", "split"], [f"{name}s{k}"]),
            N("Transpose", [f"{name}s{k}"], [f"{name}t{k}"], perm=order),
        ]
    nodes += [
        N("MatMul", [f"qt{k}", f"kt{k}"], [f"scores{k}"]),
        N("Div", [f"scores{k}", "root"], [f"scaled{k}"]),
        N("Softmax", [f"scaled{k}"], [f"attention{k}"], axis=-1),
        N("MatMul", [f"attention{k}", f"vt{k}"], [f"mixed{k}"]),
        N("Transpose", [f"mixed{k}"], [f"back{k}"], perm=[0, 2, 1, 3]),
        N("Reshape", [f"back{k}", "join"], [f"joined{k}"]),
        *linear(f"joined{k}", "o", WIDTH, WIDTH),
        N("Add", [f"h{k}", f"o{k}"], [f"first{k}"]),
        N("LayerNormalization", [f"first{k}", weight("g", WIDTH), weight("b", WIDTH)], [f"n{k}"]),
        *linear(f"n{k}", "up", WIDTH, 2 * WIDTH),
        N("Div", [f"up{k}", "sqrt2"], [f"e0{k}"]),
        N("Erf", [f"e0{k}"], [f"e1{k}"]),
        N("Add", [f"e1{k}", "one"], [f"e2{k}"]),
        N("Mul", [f"up{k}", f"e2{k}"], [f"e3{k}"]),
        N("Mul", [f"e3{k}", "half"], [f"gelu{k}"]),
        *linear(f"gelu{k}", "down", 2 * WIDTH, WIDTH),
        N("Add", [f"n{k}", f"down{k}"], [f"second{k}"]),
        N(
            "LayerNormalization",
            [f"second{k}", weight("g2", WIDTH), weight("b2", WIDTH)],
            [f"h{k + 1}"],
        ),
    ]
    return nodes


def test_two_layer_transformer_encoder(agree, model, rng) -> None:
    known = {
        "table": rng.standard_normal((50, WIDTH)).astype(F32),
        "split": np.array([0, 0, HEADS, WIDTH // HEADS], I64),
        "join": np.array([0, 0, WIDTH], I64),
        "root": np.array(np.sqrt(WIDTH // HEADS), F32),
        "sqrt2": np.array(np.sqrt(2), F32),
        "one": np.array(1, F32),
        "half": np.array(0.5, F32),
    }
    nodes = [N("Gather", ["table", "ids"], ["h0"])]
    for k in range(2):
        nodes += encoder_layer(k, rng, known)
    ids = rng.integers(0, 50, (2, LENGTH))
    # two layers of sums over up to 64 elements, each normalized again
    graph = agree(model(nodes, {"ids": ids}, ["h2"], known), {"ids": ids}, rtol=1e-4, atol=1e-5)
    ops = [n.op_type for n in graph.nodes]
    assert ops.count("Gelu") == 2
    assert ops.count("LayerNorm") == 4


def test_small_residual_network(agree, model, rng) -> None:
    def conv(x, y, known, rows, columns):
        scale = np.sqrt(9 * rows)
        known[f"{y}.w"] = (rng.standard_normal((columns, rows, 3, 3)) / scale).astype(F32)
        stats = {
            "g": rng.uniform(0.5, 1.5, columns),
            "b": rng.standard_normal(columns),
            "m": rng.standard_normal(columns),
            "v": rng.uniform(0.5, 1.5, columns),
        }
        known |= {f"{y}.{key}": value.astype(F32) for key, value in stats.items()}
        return [
            N("Conv", [x, f"{y}.w"], [f"{y}.c"], pads=[1, 1, 1, 1]),
            N("BatchNormalization", [f"{y}.c", *(f"{y}.{key}" for key in stats)], [y]),
        ]

    known: dict = {"w": rng.standard_normal((8, 10)).astype(F32), "b": np.zeros(10, F32)}
    nodes = [
        *conv("x", "a", known, 3, 8),
        N("Relu", ["a"], ["r"]),
        N("MaxPool", ["r"], ["p"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        *conv("p", "b1", known, 8, 8),
        N("Relu", ["b1"], ["r1"]),
        *conv("r1", "b2", known, 8, 8),
        N("Add", ["p", "b2"], ["s"]),
        N("Relu", ["s"], ["rs"]),
        N("GlobalAveragePool", ["rs"], ["g"]),
        N("Flatten", ["g"], ["f"]),
        N("Gemm", ["f", "w", "b"], ["l"]),
        N("Softmax", ["l"], ["y"], axis=1),
    ]
    x = rng.standard_normal((2, 3, 16, 16)).astype(F32)
    graph = agree(model(nodes, {"x": x}, ["y"], known), {"x": x}, rtol=1e-4)
    # every tensor that the model names and that was not folded away is there under its name
    made = {name for node in nodes for name in node.output}
    assert made <= graph.tensors.keys()
    assert {source for node in graph.nodes for source in node.sources} == {
        f"{node.op_type}_{i}" for i, node in enumerate(nodes)
    }
