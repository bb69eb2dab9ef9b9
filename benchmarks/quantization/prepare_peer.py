"""A process that prepares a model for ONNX Runtime's quantizer."""

from __future__ import annotations

import onnx
from onnx import version_converter
from onnxruntime.quantization.shape_inference import quant_pre_process

from benchmarks.process import answer, request

# The first opset in which DequantizeLinear accepts a scale for each channel.
OPSET = 13
# From version 4 on, weights need not be inputs; the converter fails on older models.
IR_VERSION = 8


def main() -> None:
    """Infer shapes and optimize; this folds batch normalizations into convolutions."""
    asked = request()
    model = onnx.load(asked["model"])
    model.ir_version = max(model.ir_version, IR_VERSION)
    if any(not each.domain and each.version < OPSET for each in model.opset_import):
        model = version_converter.convert_version(model, OPSET)
    # A weight that is an input may be overridden, so nothing would be folded into it.
    weights = {initializer.name for initializer in model.graph.initializer}
    given = [each for each in model.graph.input if each.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(given)
    onnx.save(model, asked["output"])  # the tools lose the weights of a model in memory
    quant_pre_process(asked["output"], asked["output"], skip_symbolic_shape=True)
    answer({})


if __name__ == "__main__":
    main()
