"""The importer of the ONNX operator `Snake` of the domain `com.example.audio`."""

from __future__ import annotations

import numpy as np

from dovetail.ir import Tensor
from dovetail_onnx import Importers, OpContext
from snake_ops.ops import PACKAGE

TABLE = Importers("com.example.audio")


@TABLE.importer("Snake", versions=(1,))
def snake(op: OpContext) -> Tensor:
    """Import Snake; with the attribute `log_scale` the model has the logarithm of alpha."""
    alpha = op.tensor(1)
    if op.attr.integer("log_scale", 0):
        values = op.need_constant(1, "alpha")
        alpha = op.static("alpha", np.exp(values), alpha.dtype)
    return op.emit("Snake", [op.tensor(0), alpha], package=PACKAGE)
