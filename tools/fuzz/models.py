"""Small models, each for one feature of files: weights, folding, fusion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import FunctionProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

F32, I64 = np.float32, np.int64
N = helper.make_node
# In the folder of every mutated model, for tensors with external data.
WEIGHTS_FILE, WEIGHTS_BYTES = "weights.bin", 256


def model(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Sequence[int | str | None]],
    outputs: Sequence[str],
    constants: Mapping[str, Any] | None = None,
    *,
    opset: int = 17,
    domains: Sequence[str] = (),
    functions: Sequence[FunctionProto] = (),
) -> ModelProto:
    """Create a model of float inputs."""
    graph = helper.make_graph(
        list(nodes),
        "seed",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(
        graph, opset_imports=opsets, functions=list(functions), ir_version=min(10, 8 + len(domains))
    )


def models() -> Iterator[tuple[str, ModelProto]]:
    """Yield names and models."""
    yield "network", _network()
    yield "gelu", _gelu()
    yield "shapes", _shapes()
    yield "folding", _folding()
    yield "growing", _growing()
    yield "quantized", _quantized()
    yield "recurrent", _recurrent()
    yield "weights", _weights()
    yield "strings", _strings()
    yield "foreign", model([N("FusedMatMul", ["x", "x"], ["y"], domain="com.microsoft")],
                           {"x": [2, 2]}, ["y"], domains=["com.microsoft"])  # fmt: skip


def _network() -> ModelProto:
    rng = np.random.default_rng(1)
    nodes = [
        N("Conv", ["x", "w", "b"], ["c"], "conv", pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
        N("BatchNormalization", ["c", "b", "b", "b", "v"], ["n"], "norm", epsilon=1e-3),
        N("Relu", ["n"], ["r"], "relu"),
        N("MaxPool", ["r"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        N("ConvTranspose", ["p", "t"], ["u"], "up", strides=[2, 2], kernel_shape=[2, 2]),
        N("Resize", ["u", "", "scales"], ["z"], "resize", mode="linear"),
        N("GlobalAveragePool", ["z"], ["g"], "mean"),
        N("Flatten", ["g"], ["f"], "flat"),
        N("Gemm", ["f", "m", "o"], ["l"], "gemm", transB=1),
        N("Softmax", ["l"], ["y"], "softmax", axis=-1),
    ]
    constants = {
        "w": rng.normal(size=(4, 3, 3, 3)).astype(F32),
        "b": np.zeros(4, F32),
        "v": np.ones(4, F32),
        "t": rng.normal(size=(4, 2, 2, 2)).astype(F32),
        "scales": np.array([1, 1, 2, 2], F32),
        "m": rng.normal(size=(5, 2)).astype(F32),
        "o": np.zeros(5, F32),
    }
    return model(nodes, {"x": ["batch", 3, 8, 8]}, ["y"], constants)


def _gelu() -> ModelProto:
    nodes = [
        N("Div", ["x", "root"], ["s"], "scale"),
        N("Erf", ["s"], ["e"], "erf"),
        N("Add", ["e", "one"], ["a"], "add"),
        N("Mul", ["x", "a"], ["m"], "times"),
        N("Mul", ["m", "half"], ["y"], "half"),
    ]
    constants = {"root": np.sqrt(F32(2)), "one": F32(1), "half": F32(0.5)}
    return model(nodes, {"x": [2, 3]}, ["y"], {k: np.array(v) for k, v in constants.items()})


def _shapes() -> ModelProto:
    nodes = [
        N("Shape", ["x"], ["s"]),
        N("Gather", ["s", "zero"], ["n"], axis=0),
        N("Mul", ["n", "two"], ["n2"]),
        N("Concat", ["n2", "rest"], ["to"], axis=0),
        N("Reshape", ["x", "to"], ["r"]),
        N("Slice", ["r", "starts", "ends", "axes", "steps"], ["c"]),
        N("Transpose", ["c"], ["t"], perm=[1, 0]),
        N("Split", ["t"], ["p", "q"], axis=0),
        N("Sum", ["p", "q"], ["y"]),
    ]
    constants = {"zero": [0], "two": [2], "rest": [-1], "starts": [0], "ends": [4], "axes": [1]}
    arrays = {k: np.array(v, I64) for k, v in (constants | {"steps": [1]}).items()}
    return model(nodes, {"x": [2, 4, 3]}, ["y"], arrays)


def _folding() -> ModelProto:
    nodes = [
        N("ConstantOfShape", ["shape"], ["a"], value=numpy_helper.from_array(np.ones(1, F32))),
        N("Expand", ["a", "wide"], ["b"]),
        N("Tile", ["b", "times"], ["c"]),
        N("Pad", ["c", "pads"], ["d"]),
        N("Range", ["from", "to", "by"], ["e"]),
        N("Cast", ["e"], ["f"], to=TensorProto.FLOAT),
        N("Add", ["d", "f"], ["g"]),
        N("Add", ["x", "g"], ["y"]),
    ]
    constants = {"shape": [2, 1], "wide": [2, 3], "times": [1, 2], "pads": [0, 1, 0, 1]}
    bounds = {"from": 0, "to": 8, "by": 1}
    arrays = {k: np.array(v, I64) for k, v in (*constants.items(), *bounds.items())}
    return model(nodes, {"x": [2, 8]}, ["y"], arrays)


def _growing() -> ModelProto:
    """Operators on constants, whose results become large with a few numbers."""
    nodes = [
        N("OneHot", ["index", "depth", "values"], ["a"]),
        N("Resize", ["image", "", "scales"], ["b"], mode="nearest"),
        N("CumSum", ["a", "axis"], ["c"]),
        N("Einsum", ["c", "c"], ["d"], equation="ij,kj->ik"),
        N("Conv", ["image", "w"], ["e"], pads=[1, 1, 1, 1], dilations=[1, 1]),
        N("MaxPool", ["e"], ["f"], kernel_shape=[2, 2], strides=[1, 1]),
        N("ReduceSum", ["b"], ["g"], keepdims=0),
        N("ReduceSum", ["f"], ["h"], keepdims=0),
        N("ReduceSum", ["d"], ["i"], keepdims=0),
        N("EyeLike", ["a"], ["j"], dtype=1),
        N("ReduceMax", ["j"], ["k"], keepdims=0),
        N("Sum", ["x", "g", "h", "i", "k"], ["y"]),
    ]
    constants = {
        "index": np.array([0, 2], I64),
        "depth": np.array(3, I64),
        "values": np.array([0, 1], F32),
        "axis": np.array(0, I64),
        "image": np.ones((1, 1, 4, 4), F32),
        "scales": np.array([1, 1, 2, 2], F32),
        "w": np.ones((1, 1, 3, 3), F32),
    }
    return model(nodes, {"x": [2]}, ["y"], constants)


def _quantized() -> ModelProto:
    nodes = [
        N("QuantizeLinear", ["x", "s", "z"], ["q"]),
        N("DequantizeLinear", ["q", "s", "z"], ["d"]),
        N("DequantizeLinear", ["w", "ws", "wz"], ["dw"], axis=1),
        N("MatMul", ["d", "dw"], ["m"]),
        N("QLinearMatMul", ["q", "s", "z", "v", "s", "z", "s", "z"], ["qm"]),
        N("DequantizeLinear", ["qm", "s", "z"], ["dm"]),
        N("Concat", ["m", "dm"], ["y"], axis=1),
    ]
    constants = {
        "s": np.array(0.1, F32),
        "z": np.array(3, np.uint8),
        "w": np.ones((4, 3), np.int8),
        "v": np.ones((4, 2), np.uint8),
        "ws": np.full(3, 0.5, F32),
        "wz": np.zeros(3, np.int8),
    }
    return model(nodes, {"x": [2, 4]}, ["y"], constants)


def _recurrent() -> ModelProto:
    nodes = [
        N("LSTM", ["x", "w", "r"], ["a", "", ""], hidden_size=2, direction="bidirectional"),
        N("Reshape", ["a", "to"], ["b"]),
        N("GRU", ["b", "gw", "gr"], ["c"], hidden_size=2),
        N("Squeeze", ["c", "one"], ["y"]),
    ]
    constants = {
        "w": np.ones((2, 8, 3), F32),
        "r": np.ones((2, 8, 2), F32),
        "to": np.array([4, 1, 4], I64),
        "gw": np.ones((1, 6, 4), F32),
        "gr": np.ones((1, 6, 2), F32),
        "one": np.array([1], I64),
    }
    return model(nodes, {"x": [4, 1, 3]}, ["y"], constants)


def _weights() -> ModelProto:
    """All ways of storing a tensor in a file."""
    names = ["raw", "typed", "narrow", "external", "constant", "one"]
    nodes = [N("Constant", [], ["constant"], value_floats=[1.0, 2.0, 3.0, 4.0])]
    nodes += [N("Add", [f"s{i}", name], [f"s{i + 1}"]) for i, name in enumerate(names)]
    nodes.append(N("Cast", ["half"], ["narrow"], to=1))
    made = model(nodes, {"s0": [4]}, [f"s{len(names)}"], {"raw": np.ones(4, F32)})
    weights = made.graph.initializer
    weights.append(helper.make_tensor("typed", TensorProto.FLOAT, [4], [1, 2, 3, 4]))
    weights.append(helper.make_tensor("half", TensorProto.FLOAT16, [4], [1, 2, 3, 4]))
    outside = weights.add(name="external", dims=[4], data_type=1, data_location=1)
    for key, value in (("location", WEIGHTS_FILE), ("offset", "16"), ("length", "16")):
        outside.external_data.add(key=key, value=value)
    weights.append(numpy_helper.from_array(np.ones(1, F32), "one"))
    return made


def _strings() -> ModelProto:
    nodes = [
        N("Cast", ["words"], ["numbers"], to=1),
        N("Add", ["x", "numbers"], ["y"]),
        N("StringConcat", ["words", "words"], ["both"]),
    ]
    made = model(nodes, {"x": [2]}, ["y"], opset=20)
    words = made.graph.initializer.add(name="words", dims=[2], data_type=TensorProto.STRING)
    words.string_data.extend([b"1.5", b"2"])
    return made
