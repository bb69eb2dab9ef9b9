"""The tools of QNN as our commands, and the options that differ.

An option that is not listed here is the command's own, in either spelling. Source: the public
reference guide of the SDK, sections on its tools.
"""

from __future__ import annotations

from collections.abc import Mapping

from dovetail_qnn_names._declarations import Implied, Option, OutputFile, Tokens, Tool

_QUIET = ("0", "false")
_LOUD = ("1", "2", "3", "true")

_DEBUG = Option(
    ("--debug",),
    ("--log-level", "debug"),
    values={n: () for n in _QUIET} | {n: ("--log-level", "debug") for n in _LOUD},
)
_VERBOSE = Option(("--verbose",), ("--log-level", "verbose"))
_NATIVE_OUTPUTS = Option(
    ("--use-native-output-files",), why="the quantizer writes no outputs of the model"
)

_CONVERTER = (
    _DEBUG,
    Option(
        ("-p", "--package-name"),
        ("--package-name",),
        takes_value=True,
        values={"qti.aisw": ()},
        always=True,
    ),
    Option(
        ("--target-device",),
        takes_value=True,
        values={
            "hexagon": ("--target-backend", "htp"),
            "cpu": ("--target-backend", "cpu"),
            "gpu": ("--target-backend", "gpu"),
        },
        to=("--target-backend",),
    ),
    Option(
        ("--optimization-level",), takes_value=True, why="all passes run; see --no-simplification"
    ),
)
_LEGACY = (*_CONVERTER, _NATIVE_OUTPUTS)
_LEGACY_DEFAULTS: tuple[Tokens, ...] = (
    ("--legacy-io-layout",),
    ("--op-style", "2.27"),
    ("--lenient",),
    ("--strip-quant-nodes",),
    ("--c-names",),
    ("--zero-biases",),
    ("--narrow-types",),
)
_STYLE = ("--quantization-style", "sdk")
# Without samples, tensors that have no encoding stay float.
_OVERRIDES = Implied(
    "--quantization-overrides",
    ("--input-list", "--float-fallback", "--floatFallback"),
    ("--float-fallback",),
)
# Files then have the types of the inputs, which the converter would change otherwise.
_NATIVE = Implied(
    "--input-list",
    ("--use-native-input-files", "--use-native-dtype"),
    ("--use-native-input-files",),
    ("--preserve-io", ("", "datatype")),
)
_SDK_STYLE = tuple(
    Implied(by, _STYLE[:1], _STYLE)
    for by in ("--input-list", "--float-fallback", "--floatFallback")
)
_QUANTIZED = (
    _NATIVE,
    *_SDK_STYLE,
    Implied("--quantization-overrides", (*_OVERRIDES.unless, *_STYLE[:1]), _STYLE),
    _OVERRIDES,
)
# qairt-converter stores the encodings in its float DLC, for the quantizer.
_CACHED = (
    *_SDK_STYLE,
    Implied(
        "--quantization-overrides",
        ("--cache-overrides", *_OVERRIDES.unless),
        ("--cache-overrides",),
    ),
)
_UNCONSUMED = Option(
    ("--allow-unconsumed-nodes", "--show-unconsumed-nodes"), why="`--dry_run` shows unused inputs"
)
_RELAY = Option(
    ("--dump-relay",), takes_value=True, why="only the SDK's converters use that form of models"
)
_NETWORK = ("-i", "--input-network")
_CPP = OutputFile(
    "--output-path", "-o", _NETWORK, ".cpp", ending=".cpp", format="qnn-cpp", names_graph=True
)


def _legacy(frontend: str, *options: Option) -> Tool:
    return Tool(
        "convert",
        (*_LEGACY, *options),
        (("--input-format", frontend), *_LEGACY_DEFAULTS),
        _QUANTIZED,
        frontend=frontend,
        output=_CPP,
    )


TOOLS: Mapping[str, Tool] = {
    "qnn-onnx-converter": _legacy("onnx"),
    "qnn-tflite-converter": _legacy("tflite", _RELAY),
    "qnn-tensorflow-converter": _legacy("tensorflow", _UNCONSUMED),
    "qnn-pytorch-converter": _legacy("pytorch", _RELAY),
    "qairt-converter": Tool(
        "convert",
        _CONVERTER,
        (("--lenient",), ("--strip-quant-nodes",), ("--zero-biases",), ("--narrow-types",)),
        _CACHED,
        frontends={
            "": "tensorflow",  # a folder with a SavedModel
            ".onnx": "onnx",
            ".pb": "tensorflow",
            ".pt": "pytorch",
            ".tflite": "tflite",
        },
        output=OutputFile("--output-path", "-o", _NETWORK, ".dlc", ending=".dlc", format="dlc"),
    ),
    "qairt-quantizer": Tool(
        "quantize",
        (_DEBUG, _NATIVE_OUTPUTS),
        (("--lenient",), _STYLE),
        output=OutputFile(
            "--output-dlc",
            "-o",
            ("-i", "--input-dlc"),
            ".dlc",
            ending=".quantized.dlc",
            format="dlc",
        ),
    ),
    "qairt-lora-model-creator": Tool("lora-model-creator"),
    "qairt-lora-importer": Tool("lora-importer"),
    "qnn-model-lib-generator": Tool(
        "model-lib-generator",
        (Option(("--target-backends",), takes_value=True, why="a model is for all backends"),),
    ),
    "qnn-op-package-generator": Tool(
        "op-package-generator",
        (
            _DEBUG,
            Option(
                ("-cop", "--converter-op-package"),
                why="an op infers its shapes itself, for converters and backends",
            ),
        ),
    ),
    "qnn-context-binary-generator": Tool(
        "context-binary-generator",
        (
            _VERBOSE,
            Option(("--input-list",), takes_value=True, why="no inputs are needed to prepare"),
            Option(
                ("--optimization-level",),
                takes_value=True,
                why="the key `O` of the HTP's config is the level of a graph",
            ),
        ),
    ),
    "qnn-architecture-checker": Tool("architecture-checker"),
    "qnn-context-binary-utility": Tool("context-binary-utility"),
    "qnn-net-run": Tool(
        "net-run",
        (
            Option(
                ("--input-data-type",),
                takes_value=True,
                values={"float": (), "native": ("--use-native-input-files",)},
            ),
        ),
        superseded={"--model": "--retrieve-context"},
    ),
}
