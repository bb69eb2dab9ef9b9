"""The tools of QNN as our commands, and the options that differ.

An option that is not listed here is the command's own, in either spelling. Sources: the public
reference guide of the SDK, sections on its tools, of 2.22 and of later releases; the options that a
converter writes at the head of a `.cpp`, and options of public scripts.
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

# Names of backends in the SDK; those of the command are lower-case.
_BACKENDS = ("CPU", "DSP", "GPU", "HTA", "HTP", "LPAI")
_TARGET = Option(
    ("--target-device", "--target-backend"),
    ("--target-backend",),
    takes_value=True,
    values={
        "hexagon": ("--target-backend", "htp"),
        **{name: ("--target-backend", name.lower()) for name in _BACKENDS},
    },
    always=True,
)
_SOC = Option(
    ("--target-soc-model",),
    takes_value=True,
    why="types are those of an architecture, as in `--target_backend htp:v75`",
)
_DEVICE = "`devices` in the file of --config_file describes the device"
_CHECKS = "models are checked in any case"
_FORMS = "forms of one network compute the same"
_DUMPS = "`dovetail inspect` shows the model"
# Options of newer releases that change no result here.
_NEWER = (
    _TARGET,
    _SOC,
    Option(("--preserve-onnx-output-order",), why="outputs have the model's order"),
    Option(
        (
            "--disable-node-validation",
            "--disable-qnn-op-config-validation",
            "--onnx-validate-models",
            "--validate-models",
        ),
        why=_CHECKS,
    ),
    Option(
        (
            "--dump-inferred-model",
            "--dump-value-info",
            "--enable-framework-trace",
            "--onnx-summary",
        ),
        why=_DUMPS,
    ),
    Option(
        (
            "--adjust-nms-features-dims",
            "--align-matmul-ranks",
            "--defer-loading",
            "--disable-defer-loading",
            "--enable-match-gathernd",
            "--enable-match-topk",
            "--expand-gru-op-structure",
            "--expand-lstm-op-structure",
            "--expand-sparse-op-structure",
            "--extract-color-transform",
            "--force-prune-cast-ops",
            "--handle-gather-negative-indices",
            "--inject-cast-for-gather",
            "--match-caffe-ssd-to-tf",
            "--multi-time-steps-gru",
            "--multi-time-steps-lstm",
            "--onnx-defer-loading",
            "--onnx-perform-sequence-construct-optimizer",
            "--perform-axes-to-spatial-first-order",
            "--perform-layout-transformation",
            "--preprocess-roi-pool-inputs",
            "--squash-box-decoder",
            "--unroll-gru-time-steps",
            "--unroll-lstm-time-steps",
            "--use-convert-quantization-nodes",
        ),
        why=_FORMS,
    ),
    Option(("--apply-masked-softmax", "--packed-max-seq"), takes_value=True, why=_FORMS),
)
# Those of the quantizer, which the older converters have, too.
_NEWER_QUANTIZER = (
    Option(
        ("--calc-static-encodings", "--include-data-invariant-ops", "--use-quantize-v2"),
        why="all tensors get encodings by one quantizer",
    ),
    Option(
        ("--quantizer-log", "--quantizer-log-level"),
        takes_value=True,
        why="--report shows the reason of each encoding",
    ),
    Option(
        ("--adjust-bias-encoding", "--enable-per-row-quantized-bias"),
        why="a bias has one scale, for all its values; see --bias_bitwidth",
    ),
)

_CONVERTER = (
    _DEBUG,
    *_NEWER,
    Option(
        ("-p", "--package-name"),
        ("--package-name",),
        takes_value=True,
        values={"qti.aisw": ()},
        always=True,
    ),
    Option(
        ("--optimization-level",), takes_value=True, why="all passes run; see --no-simplification"
    ),
)
_LEGACY = (
    *_CONVERTER,
    *_NEWER_QUANTIZER,
    _NATIVE_OUTPUTS,
    Option(("--backend",), _TARGET.to, takes_value=True, values=_TARGET.values),
    Option(("--export-format",), takes_value=True, values={"cpp": ()}),
)
_QAIRT = (
    *_CONVERTER,
    Option(("-s",), ("--input-dim",), always=True),
    Option(("-q",), ("--quantization-overrides",)),
    Option(("-oss",), ("--no-simplification",)),
    Option(("--config",), ("--io-config",)),
    Option(("--dump-config-template",), ("--dump-io-config-template",)),
    Option(
        ("--export-format",),
        takes_value=True,
        values={"DLC_DEFAULT": (), "DLC_STRIP_QUANT": ("--ignore-encodings",)},
    ),
)
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
        _QAIRT,
        (("--lenient",), ("--strip-quant-nodes",), ("--zero-biases",), ("--narrow-types",)),
        _CACHED,
        frontends={
            "": "tensorflow",  # a folder with a SavedModel
            ".onnx": "onnx",
            ".pb": "tensorflow",
            ".pt": "pytorch",
            ".tflite": "tflite",
        },
        output=OutputFile(
            "--output-path", "-o", _NETWORK, ".dlc", ending=".dlc", format="dlc", names_graph=True
        ),
    ),
    "qairt-quantizer": Tool(
        "quantize",
        (
            _DEBUG,
            _TARGET,
            _SOC,
            *_NEWER_QUANTIZER,
            _NATIVE_OUTPUTS,
            Option(("-l",), ("--input-list",)),
            Option(("-f",), ("--float-fallback",)),
            Option(("-c", "--config"), ("--config-file",)),
            Option(("--export-stripped-dlc",), why="a DLC has only what its graphs need"),
        ),
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
            Option(("--device-options",), takes_value=True, why=_DEVICE),
            Option(("--htp-socs", "--soc-model"), takes_value=True, why=_DEVICE),
            Option(
                ("--vtcm-override",),
                takes_value=True,
                why="the key `vtcm_mb` of the HTP's config is the size for a graph",
            ),
            Option(("--data-format-config",), takes_value=True, why="tensors are dense in memory"),
            Option(
                ("--save-backend-op-mapping",), why="a graph runs the nodes that the model shows"
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
            Option(("--device-options",), takes_value=True, why=_DEVICE),
        ),
        superseded={"--model": "--retrieve-context"},
    ),
}
