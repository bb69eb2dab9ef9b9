"""Options for reading an ONNX model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from dovetail.ops.frontend import FrontendOptions


class OnnxOptions(FrontendOptions, frozen=True, kw_only=True, eq=False):
    """Options for reading an ONNX model.

    Attributes:
        symbols: Values of symbolic dimensions by name (`--define-symbol`).
        dropout: With `off`, operators that drop elements in training do nothing, whatever the
            model says (`--dropout`).
        updateable: Names of initializers that become UPDATEABLE_STATIC tensors, such as the weights
            of LoRA adapters (`--lora-weight-list`).
        keep_disconnected: Whether nodes are read that no output depends on; results that nothing
            reads become outputs (`--keep-disconnected-nodes`).
    """

    symbols: Mapping[str, int] = {}
    dropout: Literal["on", "off"] = "on"
    updateable: tuple[str, ...] = ()
    keep_disconnected: bool = False
