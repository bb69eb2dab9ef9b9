"""Writing of encodings files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dovetail.errors import ConfigError, Problem, QuantizationError
from dovetail.files import atomic_write
from dovetail_quantizers.files._write_new import onnx_entry, qnn_entry
from dovetail_quantizers.files._write_old import NotHeldError, new_entry, old_entry
from dovetail_quantizers.files.form import QNN_JSON, EncodingsFile, TensorEncoding

WRITTEN = ("0.6.1", "1.0.0", "2.0.0", "2.1.0", QNN_JSON)


@dataclass(frozen=True, slots=True)
class Dumped:
    """An encodings file as text, and what is missing in it.

    Attributes:
        text: JSON; equal contents give equal text.
        left_out: Tensors that the version cannot represent, and why.
        notes: Other parts of the file that are missing or guessed.
    """

    text: str
    left_out: tuple[Problem, ...]
    notes: tuple[Problem, ...]


def write_encodings(
    file: EncodingsFile, path: str | os.PathLike[str], version: str, *, lossy: bool = False
) -> Dumped:
    """Write an encodings file; after an error there is no file, or the old one.

    Args:
        file: The contents.
        path: The file to write.
        version: One of WRITTEN.
        lossy: Whether entries that the version cannot represent are left out.

    Returns:
        The written text, and what is missing in it.

    Raises:
        ConfigError: The version is unknown.
        QuantizationError: The version cannot represent some entries; all are listed.
        ContainerError: The file cannot be written.
    """
    dumped = dump_encodings(file, version)
    if dumped.left_out and not lossy:
        raise QuantizationError(
            f"version {version} cannot hold {len(dumped.left_out)} of {len(file.entries)} entries",
            where=str(path),
            problems=dumped.left_out,
            hint="--lossy leaves them out",
        )
    with atomic_write(Path(path)) as out:
        out.write(dumped.text.encode())
    return dumped


def dump_encodings(file: EncodingsFile, version: str) -> Dumped:
    """Return an encodings file as text, without entries that the version cannot represent.

    Raises:
        ConfigError: The version is unknown.
    """
    if version not in WRITTEN:
        hint = f"expected one of {', '.join(WRITTEN)}"
        raise ConfigError(f"version {version!r} cannot be written", hint=hint)
    left_out: list[Problem] = []
    notes: list[Problem] = []
    if version == QNN_JSON:
        tensors = _held(file.entries, qnn_entry, left_out)
        data: dict[str, Any] = {"graph": {"tensors": tensors}}
    elif version.startswith("2."):
        held = _held(file.entries, lambda entry: onnx_entry(entry, version), left_out)
        data = {"encodings": list(held.values())}
    else:
        data = _sections(file, version, left_out, notes)
    if version != QNN_JSON:
        data |= {"version": version} | _extras(file, version)
    notes += _dropped(file, data)
    text = json.dumps(data, indent=4, sort_keys=True, allow_nan=False)
    return Dumped(f"{text}\n", tuple(left_out), tuple(notes))


def _sections(
    file: EncodingsFile, version: str, left_out: list[Problem], notes: list[Problem]
) -> dict[str, Any]:
    data: dict[str, Any] = {}
    sections = {"activation_encodings": file.activations, "param_encodings": file.params}
    for key, entries in sections.items():
        if version == "1.0.0":
            data[key] = list(_held(entries, new_entry, left_out).values())
        else:
            data[key] = _held(entries, old_entry, left_out)
    guessed = [entry.name for entry in file.entries.values() if entry.is_param is None]
    if guessed:
        text = (
            f"the file does not say which of {len(guessed)} tensors are weights; those with "
            "several scales, 32 bits or a symmetric grid were taken for weights "
            "(pass --model to be sure)"
        )
        notes.append(Problem(text))
    return data


def _held(
    entries: dict[str, TensorEncoding],
    write: Callable[[TensorEncoding], Any],
    left_out: list[Problem],
) -> dict[str, Any]:
    made = {}
    for name, entry in entries.items():
        try:
            made[name] = write(entry)
        except NotHeldError as reason:
            left_out.append(Problem(f"it {reason}", f"'{name}'"))
    return made


def _extras(file: EncodingsFile, version: str) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if file.producer is not None:
        made["producer"] = file.producer
    if not version.startswith("2."):
        if file.quantizer_args is not None:
            made["quantizer_args"] = file.quantizer_args
        if file.excluded_layers:
            made["excluded_layers"] = list(file.excluded_layers)
        made |= file.bitwidths
    return made


def _dropped(file: EncodingsFile, data: dict[str, Any]) -> list[Problem]:
    given: dict[str, object] = {
        "quantizer_args": file.quantizer_args,
        "excluded_layers": file.excluded_layers,
        **file.bitwidths,
    }
    return [
        Problem(f"the version has no '{key}'; it was left out")
        for key, value in given.items()
        if value and key not in data
    ]
