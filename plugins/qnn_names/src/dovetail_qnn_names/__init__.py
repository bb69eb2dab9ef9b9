"""The commands of Dovetail under the names and with the options of QNN's tools.

Each function runs a tool with the arguments of the process and returns the exit code.
"""

from functools import partial

from dovetail_qnn_names._run import run_tool

__all__ = [
    "qairt_converter",
    "qairt_lora_importer",
    "qairt_lora_model_creator",
    "qairt_quantizer",
    "qnn_architecture_checker",
    "qnn_context_binary_generator",
    "qnn_context_binary_utility",
    "qnn_model_lib_generator",
    "qnn_net_run",
    "qnn_onnx_converter",
    "qnn_op_package_generator",
    "qnn_pytorch_converter",
    "qnn_tensorflow_converter",
    "qnn_tflite_converter",
]

qairt_converter = partial(run_tool, "qairt-converter")
qairt_lora_importer = partial(run_tool, "qairt-lora-importer")
qairt_lora_model_creator = partial(run_tool, "qairt-lora-model-creator")
qairt_quantizer = partial(run_tool, "qairt-quantizer")
qnn_architecture_checker = partial(run_tool, "qnn-architecture-checker")
qnn_context_binary_generator = partial(run_tool, "qnn-context-binary-generator")
qnn_context_binary_utility = partial(run_tool, "qnn-context-binary-utility")
qnn_model_lib_generator = partial(run_tool, "qnn-model-lib-generator")
qnn_net_run = partial(run_tool, "qnn-net-run")
qnn_onnx_converter = partial(run_tool, "qnn-onnx-converter")
qnn_op_package_generator = partial(run_tool, "qnn-op-package-generator")
qnn_pytorch_converter = partial(run_tool, "qnn-pytorch-converter")
qnn_tensorflow_converter = partial(run_tool, "qnn-tensorflow-converter")
qnn_tflite_converter = partial(run_tool, "qnn-tflite-converter")
