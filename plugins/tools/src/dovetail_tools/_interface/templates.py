"""Templates of the files of `--custom-io` and `--io-config`, with a model's own values."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.files.config_text import yaml_scalar
from dovetail.ir import Graph, Tensor

_CHANNELS_FIRST = {3: "NCF", 4: "NCHW", 5: "NCDHW"}
_OTHERS = {1: "F", 2: "NF"}
_CUSTOM_HEAD = """\
# Inputs and outputs as the application wants them. Remove what is to stay as it is.
#   IOName      name of an input or output of the model
#   Layout      Model: its layout in the model; Custom: the wanted one, with the same letters
#   Datatype    float32, float16, uint8, int8, uint16, int16 or another integer type
#   QuantParam  Type: QNN_DEFINITION_DEFINED if Scale and Offset are given, else
#               QNN_DEFINITION_UNDEFINED; a real value is (stored + Offset) * Scale
"""
_CONFIG_HEAD = """\
# Inputs and outputs as the application wants them. Every value is optional; the command line comes
# before this file. What the model has is under Src Model Parameters.
#   DataType          float32, float16, uint8, int8, uint16, int16 or another integer type
#   Color Conversion  BGR, RGB, RGBA, ARGB32, NV21 or NV12, of images with 3 channels in the model
#   QuantParams       for integers of 8 and 16 bits: a real value is (stored + Offset) * Scale
"""


def custom_io_template(graph: Graph) -> str:
    """Return the text of a file for `--custom-io` that changes nothing."""
    return _CUSTOM_HEAD + "".join(map(_custom_entry, (*graph.inputs, *graph.outputs)))


def io_config_template(graph: Graph) -> str:
    """Return the text of a file for `--io-config` that changes nothing."""
    return (
        _CONFIG_HEAD
        + _config_part("Input Tensor Configuration", graph.inputs, "DataType", is_input=True)
        + _config_part("Output Tensor Configuration", graph.outputs, "DType", is_input=False)
    )


def _custom_entry(tensor: Tensor) -> str:
    layout, dtype = _layout(tensor), _dtype(tensor)
    known = f"  Datatype: {dtype}\n" if dtype == "float32" else ""
    return (
        f"- IOName: {yaml_scalar(tensor.name)}\n"
        f"  Layout:\n    Model: {layout}\n    Custom: {layout}\n"
        f"{known}"
        "  QuantParam:\n    Type: QNN_DEFINITION_UNDEFINED\n    Scale:\n    Offset:\n"
    )


def _config_part(title: str, tensors: Sequence[Tensor], dtype: str, *, is_input: bool) -> str:
    return f"{title}:\n" + "".join(_config_entry(t, dtype, is_input=is_input) for t in tensors)


def _config_entry(tensor: Tensor, dtype: str, *, is_input: bool) -> str:
    more = "    Shape:\n    Color Conversion:\n" if is_input else ""
    return (
        f"- Name: {yaml_scalar(tensor.name)}\n"
        "  Src Model Parameters:\n"
        f"    DataType: {_dtype(tensor)}\n    Layout: {_layout(tensor)}\n"
        "  Desired Model Parameters:\n"
        f"    {dtype}:\n    Layout:\n{more}"
        "    QuantParams:\n      Scale:\n      Offset:\n"
    )


def _layout(tensor: Tensor) -> str:
    rank = len(tensor.shape)
    return {**_CHANNELS_FIRST, **_OTHERS}.get(rank, "NONTRIVIAL")


def _dtype(tensor: Tensor) -> str:
    return tensor.dtype.name.lower().replace("_", "")
