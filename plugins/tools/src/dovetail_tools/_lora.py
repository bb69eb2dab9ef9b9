"""The options of `dovetail convert` for LoRA adapters."""

from __future__ import annotations

import typing
from pathlib import Path
from typing import cast

from dovetail.api.updateability import UpdatableMode
from dovetail.errors import suggest_name
from dovetail.files import read_start
from dovetail_tools._errors import usage

_MAX_BYTES = 16 * 2**20


def updateable_names(path: Path | None) -> tuple[str, ...]:
    """Return the names in the file of `--lora-weight-list`, one in each line; none without a file.

    Raises:
        FrontendError: The file cannot be read.
        ConfigError: It has no names, or is not text.
    """
    if path is None:
        return ()
    where = f"--lora-weight-list {path}"
    content = read_start(path, _MAX_BYTES + 1)
    try:
        lines = content.decode().splitlines()
    except UnicodeDecodeError as error:
        raise usage("the list of tensors is not UTF-8 text", where=where) from error
    names = tuple(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if not names or len(content) > _MAX_BYTES:
        raise usage(
            "expected the name of a tensor in each line",
            where=where,
            hint="the list is empty" if not names else "the file is too large",
        )
    return names


def updatable_mode(text: str, *, is_quantized: bool) -> UpdatableMode:
    """Return the mode of `--quant-updatable-mode`.

    Raises:
        ConfigError: It is unknown, or the model is quantized though the mode is for float models.
    """
    modes = typing.get_args(UpdatableMode)
    if text not in modes:
        raise usage(
            f"unsupported mode '{text}'; expected one of {', '.join(modes)}",
            where="--quant-updatable-mode",
            hint=suggest_name(text, modes),
        )
    if text == "float_only" and is_quantized:
        raise usage(
            "float_only is for models that stay float, but the model is quantized",
            where="--quant-updatable-mode",
            hint="use none, adapter_only or all",
        )
    return cast("UpdatableMode", text)
