"""The declaration of options about inputs and outputs, for commands that convert."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dovetail_tools._option_groups import OptionGroup

_LAYOUTS = "such as NCHW, NHWC, NCF, NFC, NTF, TNF or NONTRIVIAL"


def _text(metavar: str, text: str, *spellings: str) -> Any:
    option = typer.Option(*spellings, metavar=metavar, help=text)
    return Annotated[list[str] | None, option]


def _file(text: str, spelling: str) -> Any:
    return Annotated[Path | None, typer.Option(spelling, metavar="FILE", help=text)]


_VALUES: dict[str, Any] = {
    "input_layout": _text(
        "NAME LAYOUT",
        f"Layout of an input or output in the model, {_LAYOUTS}.",
        "-l",
        "--input-layout",
        "--source-model-input-layout",
        "--source-model-output-layout",
    ),
    "desired_input_layout": _text(
        "NAME LAYOUT",
        "Wanted layout of an input or output, with the same letters; --input-layout gives the "
        "model's, by default the one in which channels are second, unless its ops show another.",
        "--desired-input-layout",
        "--desired-output-layout",
    ),
    "input_dtype": _text(
        "NAME TYPE",
        "Type of an input, such as float16, int32 or uint8.",
        "--input-dtype",
        "--source-model-input-datatype",
    ),
    "input_type": _text(
        "NAME KIND",
        "Kind of an input: image (uint8 from 0 to 255), default, or opaque (never quantized).",
        "-t",
        "--input-type",
    ),
    "input_encoding": _text(
        "NAME COLORS [COLORS]",
        "Color format of an image input (bgr, rgb, rgba, argb32, nv12, nv21; time_series and other "
        "change nothing), and that of the model: bgr or rgb.",
        "-e",
        "--input-encoding",
        "--input-color-encoding",
        "--desired-input-color-encoding",
    ),
    "preserve_io": _text(
        "[layout|datatype [NAME ...]]",
        "Keep layouts and types of all or the named inputs and outputs: with --legacy-io-layout, "
        "or if the model is quantized.",
        "--preserve-io",
    ),
}
_FILES: dict[str, Any] = {
    "custom_io": _file("YAML of the SDK with wanted layouts, types and encodings.", "--custom-io"),
    "io_config": _file("YAML of qairt-converter for inputs and outputs.", "--io-config"),
    "dump_custom_io_config_template": _file(
        "Only write a file for --custom-io with the model's own values.",
        "--dump-custom-io-config-template",
    ),
    "dump_io_config_template": _file(
        "Only write a file for --io-config with the model's own values.",
        "--dump-io-config-template",
    ),
}
_FLAGS: dict[str, Any] = {
    "legacy_io_layout": Annotated[
        bool,
        typer.Option(
            "--legacy-io-layout",
            help="Make image inputs and outputs channels-last, as qnn-onnx-converter does.",
        ),
    ],
}
# Minimum and maximum number of values; None for any.
_COUNTS: dict[str, tuple[int, int | None]] = {
    "input_layout": (2, 2),
    "desired_input_layout": (2, 2),
    "input_dtype": (2, 2),
    "input_type": (2, 2),
    "input_encoding": (2, 3),
    "preserve_io": (0, None),
}

INTERFACE = OptionGroup("interface", _VALUES | _FILES | _FLAGS, _COUNTS)
