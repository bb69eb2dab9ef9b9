"""The models of a command line: `--model`, or `--dlc-path` with the SDK's library for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dovetail.cli.op_package_option import split_list
from dovetail_tools._option_faults import OptionFaults

# The SDK passes DLC files with this library as the model, which reads them.
_READER = re.compile(r"(.*[/\\])?(lib)?QnnModelDlc\.(so|dll)", re.IGNORECASE)
_FRONTEND = "dlc"


def model_options(
    params: Mapping[str, Any], faults: OptionFaults
) -> tuple[tuple[Path, ...], str | None]:
    """Return the model files, and the name of the frontend that reads them; None to find it.

    Args:
        params: The values of the command's parameters by name.
        faults: Receives the faults of the options.
    """
    model, dlc_path, input_format = params["model"], params["dlc_path"], params["input_format"]
    is_reader = model is not None and _READER.fullmatch(model) is not None
    if dlc_path is None:
        if is_reader:
            faults.add(f"--model {model} requires --dlc-path", hint="pass the .dlc files there")
        paths = faults.value(split_list, model, "--model") or ()
        return tuple(map(Path, paths)), input_format
    if model is not None and not is_reader:
        hint = "omit --model, or pass libQnnModelDlc.so as in the SDK"
        faults.add("--model and --dlc-path are mutually exclusive", hint=hint)
    if input_format is not None:
        faults.add("--input-format and --dlc-path are mutually exclusive")
    paths = faults.value(split_list, dlc_path, "--dlc-path") or ()
    return tuple(map(Path, paths)), _FRONTEND
