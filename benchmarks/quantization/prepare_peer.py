"""A process that prepares a model as ONNX Runtime's quantizer wants it."""

from __future__ import annotations

import onnx
from onnx import version_converter
from onnxruntime.quantization.shape_inference import quant_pre_process

from benchmarks.process import answer, request

# From here on DequantizeLinear takes a scale for each channel.
OPSET = 13
# From 4 on a weight need not be an input besides; the converter trips over models before it.
IR_VERSION = 8


def main() -> None:
    """Infer shapes and optimizes: batch normalizations go into the convolutions, for one."""
    asked = request()
    model = onnx.load(asked["model"])
    model.ir_version = max(model.ir_version, IR_VERSION)
    if any(not each.domain and each.version < OPSET for each in model.opset_import):
        model = version_converter.convert_version(model, OPSET)
    # A weight that is an input, too, may be overridden: nothing is folded into it.
    weights = {initializer.name for initializer in model.graph.initializer}
    given = [each for each in model.graph.input if each.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(given)
    onnx.save(model, asked["output"])  # the tools lose the weights of a model in memory
    quant_pre_process(asked["output"], asked["output"], skip_symbolic_shape=True)
    answer({})


if __name__ == "__main__":
    main()
