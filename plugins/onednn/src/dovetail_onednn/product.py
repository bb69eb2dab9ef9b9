"""Descriptions of matrix products."""

from __future__ import annotations

import math

import msgspec

from dovetail_onednn._api import FORWARD_INFERENCE, DataType
from dovetail_onednn.attributes import PostOp
from dovetail_onednn.descriptors import MemoryDesc
from dovetail_onednn.precision import math_mode
from dovetail_onednn.primitives import ENGINE, Description, PrimitiveDesc


class Product(msgspec.Struct, frozen=True):
    """The operands of a product, in the order of axes of its primitive.

    Attributes:
        primitive: `matmul`, with weights (..., k, n), or `inner_product`, with weights (n, k).
        source, weights, bias, target: Their descriptors; no bias is None.
        type: Type in which all operands but the bias are read.
    """

    primitive: str
    source: MemoryDesc
    weights: MemoryDesc
    bias: MemoryDesc | None
    target: MemoryDesc
    type: DataType = DataType.F32

    def __str__(self) -> str:
        bias = "" if self.bias is None else f", bias {self.bias.key}"
        operands = f"source {self.source.key}, weights {self.weights.key}{bias}"
        return f"{operands}, result {self.target.key}"

    @property
    def count(self) -> int:
        """Number of products."""
        return math.prod(self.target.dims) * self.source.dims[-1]

    def described(self, post_ops: tuple[PostOp, ...] = ()) -> PrimitiveDesc:
        """Describe the primitive.

        Args:
            post_ops: Functions of the result.

        Raises:
            BackendError: The library has no such primitive.
        """
        fused = "".join(f" + {op}" for op in post_ops)
        source, weights, target = (
            desc.of_type(self.type) for desc in (self.source, self.weights, self.target)
        )
        operands = (source, weights, self.bias, target)
        is_matmul = self.primitive == "matmul"
        return PrimitiveDesc(
            Description(
                "matmul" if is_matmul else "inner_product_forward",
                (ENGINE, *(() if is_matmul else (FORWARD_INFERENCE,)), *operands),
                lambda: f"a {self.type.text} {self.primitive}{fused}: {self}",
                post_ops,
                math_mode(),
            )
        )
