"""The rules that the viewer Netron has for `X_net.json` and `X.bin`, as a list of broken ones.

Source: docs/qnn_formats.md, "Netron".
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

from dovetail.ir import DType

TYPES = {int(dtype) for dtype in DType} - {DType.FLOAT_64, DType.BFLOAT_16}
KINDS = {0, 1, 3, 4}


def broken_rules(path: Path) -> list[str]:
    """Return the rules that a file breaks; empty if Netron shows it with its weights."""
    data = json.loads(path.read_text("utf-8"))
    found = [] if "model.cpp" in data and data.get("graph") else ["not recognised"]
    tensors: dict[str, Any] = data["graph"]["tensors"]
    params = [
        (name, tensor)
        for node in data["graph"]["nodes"].values()
        for param in node["tensor_params"].values()
        for name, tensor in param.items()
    ]
    for name, tensor in (*tensors.items(), *params):
        found += [f"{name}: {rule}" for rule in _tensor_rules(tensor)]
    found += [f"{name}: no rows of values" for name, tensor in params if not _rows(tensor["data"])]
    for name, node in data["graph"]["nodes"].items():
        found += [f"{name}: {rule}" for rule in _node_rules(node)]
    static = [f"{name}.raw" for name, tensor in tensors.items() if tensor["type"] == 4]
    if static:
        if path.name != f"{Path(data['model.bin']).stem}_net.json":
            found.append("the names of the files do not match")
        with tarfile.open(path.with_name(data["model.bin"]), "r:") as tar:
            if tar.getnames() != static:
                found.append("the entries are not those of the static tensors in their order")
    return found


def _tensor_rules(tensor: dict[str, Any]) -> list[str]:
    found = []
    if tensor["type"] not in KINDS:
        found.append("unsupported tensor type")
    if tensor["data_type"] not in TYPES:
        found.append("unsupported data type")
    if not isinstance(tensor["dims"], list):
        found.append("no shape")
    quant = tensor["quant_params"]
    is_per_tensor = quant["definition"] == 1 and quant["encoding"] == 0
    if is_per_tensor and not {"scale", "offset"} <= quant["scale_offset"].keys():
        found.append("no scale and offset")
    return found


def _rows(data: Any) -> bool:
    """Return whether data are a list of values, or of lists of values."""
    if not isinstance(data, list):
        return False
    return not any(isinstance(v, list) for row in data if isinstance(row, list) for v in row)


def _node_rules(node: dict[str, Any]) -> list[str]:
    groups = (*node["scalar_params"].items(), *node["tensor_params"].items())
    found = [f"{name}: not one value" for name, inner in groups if len(inner) != 1]
    if not all(key.isdecimal() for inner in node["scalar_params"].values() for key in inner):
        found.append("a scalar's type is no number")
    if not all(isinstance(name, str) for name in (*node["input_names"], *node["output_names"])):
        found.append("names are no text")
    return found
