"""Dropout switched off: operators that drop elements in training do nothing, as at inference."""

from __future__ import annotations

from onnx import ModelProto

from dovetail_onnx._functions import all_nodes

# The input that says whether an operator drops anything, by domain and operator.
_TRAINING_MODES = {("", "Dropout"): 2, ("com.microsoft", "BiasDropout"): 4}


def disable_dropout(model: ModelProto) -> None:
    """Remove the training mode of all dropouts of a model and its functions, in place."""
    for part in (model.graph, *model.functions):
        for node in all_nodes(part.node):
            mode = _TRAINING_MODES.get((node.domain, node.op_type))
            if mode is not None:
                del node.input[mode:]
