"""Reading of encodings files of all versions."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from dovetail.errors import Problem, QuantizationError, counted
from dovetail_quantizers.files import _read_0, _read_1, _read_2, _read_qnn
from dovetail_quantizers.files._findings import FileLocation, Findings
from dovetail_quantizers.files._json import finite, load_object, shown, take
from dovetail_quantizers.files.form import (
    BITWIDTHS,
    QNN_JSON,
    VERSIONS,
    EncodingsFile,
    Plain,
    TensorEncoding,
)

_OLD = re.compile(r"0\.\d{1,3}\.\d{1,3}")
_SECTIONS = tuple(key for key, _ in _read_0.SECTIONS)
_TOP = (
    "version", "producer", "quantizer_args", "excluded_layers", "encodings", *_SECTIONS, *BITWIDTHS
)  # fmt: skip
_WIDTHS: dict[str, Any] = {
    "activation_bitwidth": Literal[8, 16],
    "param_bitwidth": Literal[4, 8, 16],
    "bias_bitwidth": Literal[8, 32],
}


def read_encodings(path: str | os.PathLike[str]) -> EncodingsFile:
    """Read an encodings file of any version, or the encodings of a `model_net.json`.

    Raises:
        FrontendError: The file cannot be read.
        QuantizationError: It is not an encodings file, or has faults: all are listed, each with the
            name of the tensor and the location in the file.
    """
    file, faults = parse_encodings(path)
    if faults:
        raise QuantizationError(
            f"{counted(len(faults), 'fault')} in an encodings file",
            where=str(path),
            problems=faults,
            hint="run `dovetail encodings lint` for details",
        )
    return file


def parse_encodings(path: str | os.PathLike[str]) -> tuple[EncodingsFile, tuple[Problem, ...]]:
    """Read the valid part of an encodings file; return it and the faults.

    Raises:
        FrontendError: The file cannot be read.
        QuantizationError: It is not an encodings file, or of an unknown version.
    """
    findings = Findings()
    data = load_object(Path(path), findings)
    version = _version(data, str(path), findings)
    entries: dict[str, TensorEncoding] = {}
    if version == QNN_JSON:
        _read_graph(data, entries, findings)
    elif version.startswith("2."):
        _read_list(data, "encodings", entries, findings.at("$"), _read_2.read_tensor)
    else:
        for key, is_param in _read_0.SECTIONS:
            _read_section(version, key, is_param, data, entries, findings.at("$"))
    file = EncodingsFile(
        version,
        entries,
        _free(data, "producer", findings.at("$")),
        _free(data, "quantizer_args", findings.at("$")),
        _excluded(data, findings.at("$")),
        {key: data[key] for key in BITWIDTHS if take(data, key, _WIDTHS[key], findings.at("$"))},
        tuple(findings.notes),
    )
    return file, tuple(findings.faults)


def _version(data: dict[str, Any], where: str, findings: Findings) -> str:
    graph = data.get("graph")
    if isinstance(graph, dict) and isinstance(graph.get("tensors"), dict):
        return QNN_JSON
    for key in sorted(data.keys() - set(_TOP)):
        findings.at(f"$.{key}").note("unknown key, ignored")
    version = data.get("version", "0.4.0")
    if isinstance(version, str) and _OLD.fullmatch(version) and version not in VERSIONS:
        findings.at("$.version").note(f"version {version} was read as 0.6.1")
        version = "0.6.1"
    if version not in VERSIONS[:-1]:
        known = ", ".join(VERSIONS[:-1])
        raise QuantizationError(
            f"unknown version {shown(version)}", where=where, hint=f"known versions: {known}"
        )
    new = version.startswith("2.")
    wanted = ("encodings",) if new else _SECTIONS
    if missing := [key for key in wanted if key not in data]:
        raise QuantizationError(
            f"missing {' and '.join(missing)}, required by version {version}",
            where=where,
            hint="the file is not an encodings file, or its `version` is wrong",
        )
    return str(version)


def _read_section(
    version: str,
    key: str,
    is_param: bool,
    data: dict[str, Any],
    entries: dict[str, TensorEncoding],
    at: FileLocation,
) -> None:
    if version == "1.0.0":
        _read_list(data, key, entries, at, lambda item, p: _read_1.read_tensor(item, is_param, p))
        return
    for name, value in (take(data, key, dict[str, Any], at) or {}).items():
        location = at.below(f".{key}.{name}", name)
        if name in entries:
            location.fault("an activation has the same name")
        elif (entry := _read_0.read_tensor(name, value, is_param, location)) is not None:
            entries[name] = entry


def _read_list(
    data: dict[str, Any],
    key: str,
    entries: dict[str, TensorEncoding],
    at: FileLocation,
    read: Callable[[Any, FileLocation], TensorEncoding | None],
) -> None:
    for i, item in enumerate(take(data, key, list[Any], at) or []):
        name = item.get("name") if isinstance(item, dict) else None
        location = at.below(f".{key}[{i}]", name if isinstance(name, str) else None)
        if isinstance(name, str) and name in entries:
            location.fault("another entry has the same name")
        elif (entry := read(item, location)) is not None:
            entries[entry.name] = entry


def _read_graph(
    data: dict[str, Any], entries: dict[str, TensorEncoding], findings: Findings
) -> None:
    for name, value in data["graph"]["tensors"].items():
        location = findings.at(f"$.graph.tensors.{name}", name)
        if (entry := _read_qnn.read_tensor(name, value, location)) is not None:
            entries[name] = entry


def _free(data: dict[str, Any], key: str, at: FileLocation) -> dict[str, Plain] | None:
    given = take(data, key, dict[str, Any], at)
    if given is None:
        return None
    location = at.below(f".{key}")
    found: dict[str, Plain] = {}
    for name in given:
        value = take(given, name, Plain, location)
        if finite(value):
            found[name] = value
        else:
            location.fault(f"{value} is not a number", f".{name}")
    return found


def _excluded(data: dict[str, Any], at: FileLocation) -> tuple[str, ...]:
    return tuple(take(data, "excluded_layers", list[str], at) or ())
