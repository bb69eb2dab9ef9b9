"""Small networks and LoRA adapters for them, in the files that PyTorch's tools would write."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

from dovetail.adapters import write_safetensors
from dovetail.ir import Array

N = helper.make_node
SIZE, TOKENS = 16, 8


def attention() -> ModelProto:
    """One head of attention and a residual; modules `attn.q`, `attn.v` and `mlp`, a Gemm."""
    rng = np.random.default_rng(1)
    weights = {name: rng.standard_normal((SIZE, SIZE)) / 4 for name in ("wq", "wk", "wv", "wo")}
    weights["bo"] = rng.standard_normal(SIZE)
    nodes = [
        N("MatMul", ["x", "wq"], ["q"], name="/attn/q/MatMul"),
        N("MatMul", ["x", "wk"], ["k"], name="/attn/k/MatMul"),
        N("MatMul", ["x", "wv"], ["v"], name="/attn/v/MatMul"),
        N("Transpose", ["k"], ["t"], name="t", perm=[1, 0]),
        N("MatMul", ["q", "t"], ["s"], name="s"),
        N("Softmax", ["s"], ["p"], name="p"),
        N("MatMul", ["p", "v"], ["o"], name="o"),
        N("Gemm", ["o", "wo", "bo"], ["m"], name="/mlp/Gemm", transB=1),
        N("Add", ["m", "x"], ["y"], name="y"),
    ]
    return model_of(nodes, (TOKENS, SIZE), (TOKENS, SIZE), weights)


def convolutions() -> ModelProto:
    """Two convolutions; modules `first`, of 3 x 3 and stride 2, and `second`."""
    rng = np.random.default_rng(2)
    weights = {
        "w1": rng.standard_normal((8, 3, 3, 3)) / 5,
        "b1": rng.standard_normal(8),
        "w2": rng.standard_normal((4, 8, 1, 1)) / 3,
    }
    nodes = [
        N("Conv", ["x", "w1", "b1"], ["h"], name="/first/Conv", pads=[1] * 4, strides=[2, 2]),
        N("Relu", ["h"], ["r"], name="r"),
        N("Conv", ["r", "w2"], ["y"], name="/second/Conv"),
    ]
    return model_of(nodes, (1, 3, 8, 8), (1, 4, 4, 4), weights)


def model_of(
    nodes: Sequence[Any], x: Sequence[int], y: Sequence[int], weights: Mapping[str, Array]
) -> ModelProto:
    """Return a model with the input x and the output y."""
    graph = helper.make_graph(
        list(nodes),
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, y)],
        [numpy_helper.from_array(np.float32(v), n) for n, v in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


# Weights of the modules in the models, and their inputs and outputs in PyTorch.
MODULES = {
    "attn.q": ("wq", (SIZE,), (SIZE,)),
    "attn.v": ("wv", (SIZE,), (SIZE,)),
    "mlp": ("wo", (SIZE,), (SIZE,)),
    "first": ("w1", (3, 3, 3), (8, 1, 1)),
    "second": ("w2", (8, 1, 1), (4, 1, 1)),
}


def write_adapter(
    folder: Path, modules: Sequence[str], rank: int, seed: int, **config: Any
) -> dict[str, tuple[Array, Array]]:
    """Write an adapter as PEFT does and return A and B by module."""
    rng = np.random.default_rng(seed)
    folder.mkdir()
    data = {"peft_type": "LORA", "r": rank, "lora_alpha": 8, "target_modules": list(modules)}
    (folder / "adapter_config.json").write_text(json.dumps(data | config))
    found, arrays = {}, {}
    for module in modules:
        _, ins, outs = MODULES[module]
        a = np.float32(rng.standard_normal((rank, *ins)) / 4)
        b = np.float32(rng.standard_normal((outs[0], rank, *outs[1:])) / 4)
        found[module] = a, b
        arrays[f"base_model.model.{module}.lora_A.weight"] = a
        arrays[f"base_model.model.{module}.lora_B.weight"] = b
    write_safetensors(folder / "adapter_model.safetensors", arrays)
    return found


def merged(model: ModelProto, changes: Mapping[str, Sequence[tuple[Array, Array, float]]]) -> Any:
    """Return a model whose weights contain adapters: of each module A, B and the factor.

    A weight (in, out) of MatMul is that of PyTorch transposed; Gemm's with transB is not.
    """
    made = ModelProto()
    made.CopyFrom(model)
    for module, parts in changes.items():
        name = MODULES[module][0]
        (weight,) = (t for t in made.graph.initializer if t.name == name)
        values = np.float64(numpy_helper.to_array(weight))
        for a, b, factor in parts:
            flat = b.reshape(len(b), -1).astype(np.float64) @ a.reshape(len(a), -1)
            change = factor * flat.reshape(len(b), *a.shape[1:])
            values = values + (change.T if name in ("wq", "wv") else change)
        weight.CopyFrom(numpy_helper.from_array(np.float32(values), name))
    return made


def write_flow(folder: Path, model: ModelProto, config: str) -> None:
    """Write a base model and a config of use cases."""
    onnx.save(model, folder / "base.onnx")
    (folder / "lora.yaml").write_text(config)


CONFIG = """
adapter:
- {name: english, lora_config: english/adapter_config.json}
- {name: formal, lora_config: formal}
use-case:
- {name: original, model_name: base.onnx}
- {name: english, adapter_names: [english]}
- {name: formal english, adapter_names: [english, formal]}
"""
