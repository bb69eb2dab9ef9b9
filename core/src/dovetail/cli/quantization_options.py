"""The quantizer's options on the command line, for every command that quantizes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from dovetail.errors import ConfigError

_BITS = "BITS"
_ESTIMATOR = "min-max, percentile, mse, entropy, sqnr or any installed estimator"
_SCHEMA = "asymmetric (default), symmetric or unsignedsymmetric"
_MODES = "Older option for estimator and schema: tf, enhanced, adjusted or symmetric"

# `dovetail.quantization` is not imported here, because it loads numpy, which slows down the help of
# commands; a test compares both. Field of QuantizationOptions -> type, metavar, help.
_VALUES: Mapping[str, tuple[Any, str, str]] = {
    "quantization_overrides": (Path, "FILE", "Encodings file that replaces calibration."),
    "act_bitwidth": (int, _BITS, "Bitwidth of activations: 8 (default) or 16."),
    "weights_bitwidth": (int, _BITS, "Bitwidth of weights: 4, 8 (default) or 16."),
    "bias_bitwidth": (int, _BITS, "Bitwidth of biases: 8 (default) or 32."),
    "float_bitwidth": (int, _BITS, "Bitwidth of tensors that stay float: 32 (default) or 16."),
    "float_bias_bitwidth": (int, _BITS, "Bitwidth of biases that stay float."),
    "act_quantizer_calibration": (str, "NAME", f"Range of activations: {_ESTIMATOR}."),
    "param_quantizer_calibration": (str, "NAME", f"Range of weights: {_ESTIMATOR}."),
    "act_quantizer_schema": (str, "NAME", f"Grid of activations: {_SCHEMA}."),
    "param_quantizer_schema": (str, "NAME", f"Grid of weights: {_SCHEMA}."),
    "act_quantizer": (str, "MODE", f"{_MODES}, for activations."),
    "param_quantizer": (str, "MODE", f"{_MODES}, for weights."),
    "percentile_calibration_value": (
        float,
        "PERCENT",
        "Percentile from 90 to 100; 99.99 by default.",
    ),
    "weights_block_size": (int, "N", "One scale per N weights along the summed axis."),
    "restrict_quantization_steps": (str, '"MIN MAX"', 'Ends of the grid, such as "-0x80 0x7F".'),
    "quantization_style": (str, "STYLE", "Rules for encodings: dovetail (default) or sdk."),
    "concat": (str, "HOW", "Encodings of a Concat: share (default) or requantize."),
    "algorithms": (
        list[str],
        "NAME [NAME ...]",
        "Algorithms that improve the result, in order; commas may separate them.",
    ),
    "algorithm_params": (
        list[str],
        "NAME.KEY=VALUE",
        "A parameter of an algorithm; repeat for several.",
    ),
    "config_file": (Path, "FILE", "The SDK's YAML file for the quantizer; it names algorithms."),
    "preserve_io_datatype": (
        list[str],
        "[NAME ...]",
        "Keep inputs and outputs of the model float: all, or those of these names.",
    ),
    "target_backend": (str, "NAME", "Backend for which types are chosen, such as htp:v73."),
    "calibration_backend": (str, "NAME", "Backend that runs the float model; cpu by default."),
    "calibration_cache": (Path, "FILE", "File that stores observed ranges for later runs."),
}
_FLAGS: Mapping[str, str] = {
    "use_per_channel_quantization": "One scale per output channel of a convolution.",
    "use_per_row_quantization": "One scale per output of MatMul and FullyConnected.",
    "keep_quant_nodes": "Keep the model's nodes that quantize and dequantize activations.",
    "ignore_encodings": "Ignore the encodings in the model.",
    "use_aimet_quantizer": "Let AIMET choose the encodings; needs the package aimet-onnx.",
    "float_fallback": "Keep tensors without an encoding float instead of calibrating.",
    "disable_relu_squashing": "Include values in ranges that a Relu or clip cuts off, or for "
    "which a Sigmoid, Softmax or similar op is flat.",
    "skip_algorithm_check": "Keep changes of algorithms even if the error does not fall.",
    "lenient": "Ignore entries that match no tensor, infinities, and options without effect.",
    "keep_weights_quantized": "Store the weights of nodes that stay float in fixed point.",
    "use_dynamic_16_bit_weights": "Convert computed 16-bit weights, such as the second input of a "
    "MatMul, to a symmetric grid.",
    "pack_4_bit_weights": "Store 4-bit weights in half a byte.",
}
# Further options of commands that write a quantized model.
DumpEncodingJson = Annotated[
    bool,
    typer.Option(
        "--dump-encoding-json",
        help="Write all encodings to MODEL_GRAPH.encodings next to the model.",
    ),
]
ShowReport = Annotated[
    bool, typer.Option("--report", help="Show the encoding of each tensor, and the reason.")
]

# Names in older and newer tools; other options have no abbreviations.
OTHER_SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "act_bitwidth": ("--act-bw",),
    "algorithms": ("--apply-algorithms",),
    "bias_bitwidth": ("--bias-bw",),
    "float_bias_bitwidth": ("--float-bias-bw",),
    "float_bitwidth": ("--float-bw",),
    "float_fallback": ("--floatFallback", "--enable-float-fallback"),
    "ignore_encodings": ("--ignore-quantization-overrides",),
    "weights_bitwidth": ("--weight-bw", "--weights-bw"),
}


def takes_quantization(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the quantizer's options in addition to its own.

    Args:
        command: A function with a parameter `quantization`: the mapping of given options, in the
            form of `dovetail.quantize`.
    """
    declared = inspect.signature(command, eval_str=True).parameters.values()
    own = [p for p in declared if p.name != "quantization"]
    added = [*map(_value, _VALUES), *map(_flag, _FLAGS)]
    names = {p.name for p in added}

    @functools.wraps(command)
    def wrapped(**arguments: Any) -> None:
        given = {
            n: v for n, v in arguments.items() if n in names and v is not None and v is not False
        }
        rest = {n: v for n, v in arguments.items() if n not in names}
        if "algorithms" in given:
            texts = given["algorithms"]
            given["algorithms"] = tuple(name for text in texts for name in text.split(","))
        if "preserve_io_datatype" in given:
            tensors = tuple(given["preserve_io_datatype"])
            given["preserve_io_datatype"] = True if "" in tensors else tensors
        if "algorithm_params" in given:
            given["algorithm_params"] = _by_algorithm(given["algorithm_params"])
        command(**rest, quantization=given)

    wrapped.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]
    wrapped.__annotations__ = {p.name: p.annotation for p in (*own, *added)} | {"return": None}
    return wrapped


def _by_algorithm(texts: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the values of NAME.KEY=VALUE texts, by name and key."""
    found: dict[str, dict[str, str]] = {}
    for text in texts:
        target, equals, value = text.partition("=")
        name, dot, key = target.partition(".")
        if not (equals and dot and name and key):
            raise ConfigError(
                f"invalid parameter '{text}' of an algorithm",
                code="USAGE",
                where="--algorithm-param",
                hint="use NAME.KEY=VALUE, such as adaround.iterations=2000",
            )
        found.setdefault(name, {})[key] = value
    return found


def _value(name: str) -> inspect.Parameter:
    kind, metavar, text = _VALUES[name]
    option = typer.Option(*_spellings(name), metavar=metavar, help=text)
    return _parameter(name, Annotated[kind | None, option], None)


def _flag(name: str) -> inspect.Parameter:
    return _parameter(
        name, Annotated[bool, typer.Option(*_spellings(name), help=_FLAGS[name])], False
    )


def _spellings(name: str) -> list[str]:
    if name == "algorithm_params":
        return ["--algorithm-param"]  # each gives one
    return ["--" + name.replace("_", "-"), *OTHER_SPELLINGS.get(name, ())]


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )
