"""Small transformers and a convolutional network, as exporters write them and as ORT fuses them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from microsoft_cases import make_model
from onnx import ModelProto, NodeProto, TensorProto, helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    quantize_dynamic,
    quantize_static,
)

from dovetail.ir import Array

F32 = np.float32
HEADS, SIZE, WORDS = 2, 8, 6
WIDTH = HEADS * SIZE


class Builder:
    """Collects nodes and weights."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[NodeProto] = []
        self.known: dict[str, Array] = {}

    def add(self, op_type: str, inputs: Sequence[str], outputs: int = 1, **attributes) -> str:
        """Add a node and return the name of its first output."""
        name = f"{op_type}_{len(self.nodes)}"
        made = [name, *(f"{name}.{i}" for i in range(1, outputs))]
        self.nodes.append(helper.make_node(op_type, inputs, made, name=name, **attributes))
        return name

    def weight(self, *shape: int, scale: float = 0.3, shift: float = 0.0) -> str:
        """Add weights and return their name."""
        return self.constant((self.rng.normal(size=shape) * scale + shift).astype(F32))

    def constant(self, values: Array) -> str:
        """Add a constant and return its name."""
        name = f"c{len(self.known)}"
        self.known[name] = values
        return name

    def ints(self, *values: int) -> str:
        """Add a vector of integers."""
        return self.constant(np.array(values, np.int64))

    def linear(self, x: str, inputs: int, outputs: int) -> str:
        """Add a product with weights and a bias."""
        product = self.add("MatMul", [x, self.weight(inputs, outputs)])
        return self.add("Add", [self.weight(outputs), product])

    def norm(self, x: str) -> str:
        """Add a layer normalization."""
        scale, shift = self.weight(WIDTH, shift=1.0), self.weight(WIDTH)
        return self.add("LayerNormalization", [x, scale, shift], axis=-1, epsilon=1e-12)


def bert() -> tuple[ModelProto, dict[str, Array]]:
    """Return a BERT of one layer as PyTorch's exporter writes it, and what to feed it."""
    b = Builder(1)
    ids = b.rng.integers(0, 11, (2, WORDS))
    feeds = {
        "input_ids": ids,
        "attention_mask": np.array([[1] * 4 + [0] * 2, [1] * 6], np.int64),
        "token_type_ids": np.array([[0, 0, 0, 1, 1, 1], [0] * 6], np.int64),
    }
    words = b.add("Gather", [b.weight(11, WIDTH), "input_ids"], axis=0)
    kinds = b.add("Gather", [b.weight(2, WIDTH), "token_type_ids"], axis=0)
    total = b.add("Add", [words, kinds])
    places = b.add("Gather", [b.weight(9, WIDTH), b.constant(np.arange(WORDS)[None])], axis=0)
    x = b.norm(b.add("Add", [total, places]))
    x = b.norm(b.add("Add", [_attention(b, x), x]))
    inner = b.linear(x, WIDTH, 4 * WIDTH)
    x = b.norm(b.add("Add", [b.linear(_gelu(b, inner), 4 * WIDTH, WIDTH), x]))
    y = b.add("Tanh", [b.linear(x, WIDTH, 3)])
    return make_model(b.nodes, feeds, [y], b.known), feeds


def _attention(b: Builder, x: str) -> str:
    apart, joined = b.ints(0, 0, HEADS, SIZE), b.ints(0, 0, WIDTH)
    parts = []
    for perm in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)):
        heads = b.add("Reshape", [b.linear(x, WIDTH, WIDTH), apart])
        parts.append(b.add("Transpose", [heads], perm=perm))
    scores = b.add("MatMul", parts[:2])
    scores = b.add("Div", [scores, b.constant(np.array(np.sqrt(SIZE), F32))])
    mask = b.add("Unsqueeze", ["attention_mask", b.ints(1)])
    mask = b.add("Cast", [b.add("Unsqueeze", [mask, b.ints(2)])], to=TensorProto.FLOAT)
    hidden = b.add("Sub", [b.constant(np.array(1, F32)), mask])
    bias = b.add("Mul", [hidden, b.constant(np.array(-10000, F32))])
    weights = b.add("Softmax", [b.add("Add", [scores, bias])], axis=3)
    mixed = b.add("Transpose", [b.add("MatMul", [weights, parts[2]])], perm=(0, 2, 1, 3))
    return b.linear(b.add("Reshape", [mixed, joined]), WIDTH, WIDTH)


def _gelu(b: Builder, x: str) -> str:
    scaled = b.add("Div", [x, b.constant(np.array(np.sqrt(2), F32))])
    gate = b.add("Add", [b.add("Erf", [scaled]), b.constant(np.array(1, F32))])
    return b.add("Mul", [b.add("Mul", [x, gate]), b.constant(np.array(0.5, F32))])


def fused_bert() -> tuple[ModelProto, dict[str, Array]]:
    """Return a BERT of one layer as ONNX Runtime's optimizer writes it, and what to feed it."""
    b = Builder(4)
    ids = b.rng.integers(0, 11, (2, WORDS), np.int32)
    feeds = {
        "input_ids": ids,
        "token_type_ids": np.array([[0, 0, 0, 1, 1, 1], [0] * 6], np.int32),
        "attention_mask": np.array([[1] * 4 + [0] * 2, [1] * 6], np.int32),
    }
    runtime = {"domain": "com.microsoft"}

    def skip(x: str, y: str) -> str:
        factors = [b.weight(WIDTH, shift=1.0), b.weight(WIDTH), b.weight(WIDTH)]
        return b.add("SkipLayerNormalization", [x, y, *factors], epsilon=1e-12, **runtime)

    tables = [b.weight(11, WIDTH), b.weight(9, WIDTH), b.weight(2, WIDTH)]
    factors = [b.weight(WIDTH, shift=1.0), b.weight(WIDTH)]
    given = ["input_ids", "token_type_ids", *tables, *factors, "attention_mask"]
    x = b.add("EmbedLayerNormalization", given, 2, epsilon=1e-12, **runtime)
    weights = [b.weight(WIDTH, 3 * WIDTH), b.weight(3 * WIDTH)]
    y = b.add("Attention", [x, *weights, f"{x}.1"], num_heads=HEADS, **runtime)
    x = skip(b.add("MatMul", [y, b.weight(WIDTH, WIDTH)]), x)
    y = b.add("MatMul", [x, b.weight(WIDTH, 4 * WIDTH)])
    y = b.add("BiasGelu", [y, b.weight(4 * WIDTH)], **runtime)
    y = b.add("FusedMatMul", [y, b.weight(WIDTH, 4 * WIDTH)], transB=1, alpha=0.5, **runtime)
    x = skip(y, x)
    return make_model(b.nodes, feeds, [x], b.known), feeds


def llama() -> tuple[ModelProto, dict[str, Array]]:
    """Return a block of a Llama as ONNX Runtime's model builder writes it, and what to feed it."""
    b = Builder(2)
    rows, heads, groups, size, inner = 5, 4, 2, 16, 96
    width = heads * size
    runtime = {"domain": "com.microsoft"}
    feeds = {
        "x": b.rng.normal(size=(2, rows, width)).astype(F32),
        "attention_mask": np.ones((2, rows), np.int64),
    }

    def product(x: str, inputs: int, outputs: int) -> str:
        blocks = inputs // 32
        packed = b.constant(b.rng.integers(0, 256, (outputs, blocks, 16), np.uint8))
        scales = b.constant(b.rng.uniform(0.005, 0.02, (outputs, blocks)).astype(F32))
        sizes = {"K": inputs, "N": outputs, "bits": 4, "block_size": 32}
        return b.add("MatMulNBits", [x, packed, scales], accuracy_level=1, **sizes, **runtime)

    gamma = b.weight(width, shift=1.0)
    x = b.add("SimplifiedLayerNormalization", ["x", gamma], axis=-1, epsilon=1e-5, stash_type=1)
    # how long the sequences are
    counted = b.add("ReduceSum", ["attention_mask", b.ints(1)], keepdims=0)
    last = b.add("Cast", [b.add("Sub", [counted, b.ints(1)])], to=TensorProto.INT32)
    extents = b.add("Shape", ["attention_mask"])
    total = b.add("Gather", [extents, b.constant(np.array(1, np.int64))], axis=0)
    total = b.add("Cast", [total], to=TensorProto.INT32)
    angles = np.outer(np.arange(32), 1e4 ** -(np.arange(size // 2) / (size // 2)))
    turns = [b.constant(f(angles).astype(F32)) for f in (np.cos, np.sin)]
    parts = [product(x, width, n * size) for n in (heads, groups, groups)]
    mixed = b.add(
        "GroupQueryAttention",
        [*parts, "", "", last, total, *turns],
        3,
        num_heads=heads,
        kv_num_heads=groups,
        do_rotary=1,
        **runtime,
    )
    skipped = b.add(
        "SkipSimplifiedLayerNormalization",
        ["x", product(mixed, width, width), b.weight(width, shift=1.0)],
        4,
        epsilon=1e-5,
        **runtime,
    )
    b.nodes[-1].output[1:3] = ["", ""]
    gate, up = (product(skipped, width, inner) for _ in range(2))
    opened = b.add("QuickGelu", [gate], alpha=1.0, **runtime)
    down = product(b.add("Mul", [opened, up]), inner, width)
    inputs = [f"{skipped}.3", down, b.weight(width, shift=1.0)]
    y = b.add("SkipSimplifiedLayerNormalization", inputs, epsilon=1e-5, **runtime)
    return make_model(b.nodes, feeds, [y, f"{mixed}.1", f"{mixed}.2"], b.known), feeds


def convolutional() -> tuple[ModelProto, dict[str, Array]]:
    """Return convolutions with activations and a residual sum, and what to feed them."""
    b = Builder(3)
    feeds = {"x": b.rng.normal(size=(1, 3, 9, 9)).astype(F32)}
    window = {"pads": [1, 1, 1, 1]}
    first = b.add("Relu", [b.add("Conv", ["x", b.weight(8, 3, 3, 3), b.weight(8)], **window)])
    inner = b.add("Conv", [first, b.weight(8, 8, 3, 3), b.weight(8)], **window)
    inner = b.add("LeakyRelu", [inner], alpha=0.2)
    second = b.add("Conv", [inner, b.weight(8, 8, 3, 3), b.weight(8)], **window)
    total = b.add("Relu", [b.add("Add", [second, first])])
    rows = b.add("Flatten", [b.add("GlobalAveragePool", [total])])
    y = b.add("Sigmoid", [b.add("Gemm", [rows, b.weight(8, 4), b.weight(4)])])
    return make_model(b.nodes, feeds, [y], b.known), feeds


class _Once(CalibrationDataReader):
    """Gives one example."""

    def __init__(self, feeds: dict[str, Array]) -> None:
        self._left = [feeds]

    def get_next(self) -> dict[str, Array] | None:
        """Return it, and then nothing."""
        return self._left.pop() if self._left else None


def quantized(model: ModelProto, feeds: dict[str, Array], folder: Path) -> ModelProto:
    """Return a model with integers between its operators, as ONNX Runtime's quantizer writes it."""
    source, target = folder / "real.onnx", folder / "stored.onnx"
    onnx.save(model, source)
    quantize_static(source, target, _Once(feeds), quant_format=QuantFormat.QOperator)
    return onnx.load(target)


def dynamically_quantized(model: ModelProto, folder: Path) -> ModelProto:
    """Return a model with stored weights, as ONNX Runtime's quantizer writes it."""
    source, target = folder / "real.onnx", folder / "stored.onnx"
    onnx.save(model, source)
    quantize_dynamic(source, target)
    return onnx.load(target)


def saved_by_runtime(model: ModelProto, folder: Path) -> ModelProto:
    """Return a model as ONNX Runtime saves it after fusing."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(folder / "saved.onnx")
    onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return onnx.load(options.optimized_model_filepath)
