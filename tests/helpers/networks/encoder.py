"""A transformer encoder."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto

from networks._builder import Builder


def encoder(*, layers: int = 2, tokens: int = 12, width: int = 32, heads: int = 4) -> ModelProto:
    """Return a transformer encoder: attention, residuals, LayerNormalization, Gelu; post-norm."""
    made = _Encoder(np.random.default_rng(7), tokens, width, heads)
    last = "x"
    for layer in range(layers):
        last = made.layer(f"layer{layer}", last)
    return made.model("encoder", {"x": (1, tokens, width)}, last)


class _Encoder(Builder):
    def __init__(self, rng: np.random.Generator, tokens: int, width: int, heads: int) -> None:
        super().__init__(rng)
        self.tokens, self.width, self.heads = tokens, width, heads

    def layer(self, name: str, x: str) -> str:
        attended = self.attention(f"{name}/attention", x)
        x = self.norm(f"{name}/norm1", self.add("Add", f"{name}/residual1", x, attended))
        wide = self.dense(f"{name}/up", x, self.width, 4 * self.width)
        wide = self.add("Gelu", f"{name}/gelu", wide)
        narrow = self.dense(f"{name}/down", wide, 4 * self.width, self.width)
        return self.norm(f"{name}/norm2", self.add("Add", f"{name}/residual2", x, narrow))

    def attention(self, name: str, x: str) -> str:
        size = self.width // self.heads
        query, key, value = (
            self.split_heads(f"{name}/{part}", self.dense(f"{name}/{part}", x), perm)
            for part, perm in (("q", (0, 2, 1, 3)), ("k", (0, 2, 3, 1)), ("v", (0, 2, 1, 3)))
        )
        scores = self.add("MatMul", f"{name}/scores", query, key)
        root = self.weight(f"{name}/root", np.array(size**0.5, np.float32))
        scaled = self.add("Div", f"{name}/scaled", scores, root)
        shares = self.add("Softmax", f"{name}/softmax", scaled, axis=-1)
        mixed = self.add("MatMul", f"{name}/mixed", shares, value)
        back = self.add("Transpose", f"{name}/back", mixed, perm=(0, 2, 1, 3))
        shape = self.weight(f"{name}/joined_shape", np.array([0, 0, self.width], np.int64))
        return self.dense(f"{name}/out", self.add("Reshape", f"{name}/joined", back, shape))

    def split_heads(self, name: str, x: str, perm: tuple[int, ...]) -> str:
        heads = [0, 0, self.heads, self.width // self.heads]
        shape = self.weight(f"{name}/shape", np.array(heads, np.int64))
        return self.add(
            "Transpose", f"{name}/t", self.add("Reshape", f"{name}/r", x, shape), perm=perm
        )

    def dense(self, name: str, x: str, n: int | None = None, m: int | None = None) -> str:
        n, m = n or self.width, m or self.width
        drawn = self.rng.normal(0, n**-0.5, (n, m)).astype(np.float32)
        product = self.add("MatMul", f"{name}/matmul", x, self.weight(f"{name}/w", drawn))
        bias = self.weight(f"{name}/b", self.rng.normal(0, 0.1, m).astype(np.float32))
        return self.add("Add", f"{name}/bias", product, bias)

    def norm(self, name: str, x: str) -> str:
        scale = self.weight(f"{name}/scale", self.rng.uniform(0.5, 1.5, self.width).astype("f4"))
        bias = self.weight(f"{name}/bias", self.rng.normal(0, 0.1, self.width).astype("f4"))
        return self.add("LayerNormalization", name, x, scale, bias, axis=-1, epsilon=1e-5)
