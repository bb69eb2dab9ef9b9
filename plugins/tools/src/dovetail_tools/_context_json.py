"""The metadata of a context binary, with the key names of the SDK's tool.

Source: spec/outputs.md, section 1. Each record is wrapped as `{"info": ..., "version": 1}`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dovetail.cli.output import current_output
from dovetail.container import ContextFile
from dovetail.errors import ConfigError, counted
from dovetail.files import atomic_write
from dovetail.ir import DataFormat, Graph, Tensor, static_tensors
from dovetail_tools._encoding_json import quantize_params
from dovetail_tools._option_values import is_same

# QNN's numbers of backends.
_BACKENDS = {"saver": 2, "cpu": 3, "gpu": 4, "dsp": 5, "htp": 6, "hta": 7, "lpai": 12}
_ARCH = re.compile(r"\bv(\d+)\b")
_VERSION = 1


def write_context_json(binary: Path, path: Path) -> None:
    """Write the metadata of a context binary to a JSON file.

    Args:
        binary: The context binary.
        path: The file to write.

    Raises:
        DovetailError: The binary cannot be read, is damaged or is not a context binary; the file
            is the binary, or cannot be written.
    """
    data = context_json(ContextFile.open(binary))
    if is_same(path, binary):
        raise ConfigError(
            "the JSON would overwrite the context binary", code="USAGE", where=f"--json-file {path}"
        )
    with atomic_write(path) as file:
        file.write(json.dumps(data, indent=2).encode() + b"\n")
    graphs = data["info"]["numGraphs"]
    current_output().data(
        {"file": str(binary), "json_file": str(path), "graphs": graphs},
        f"{path}: metadata of {counted(graphs, 'graph')}",
    )


def context_json(file: ContextFile) -> dict[str, Any]:
    """Return the metadata of a context binary.

    Args:
        file: The binary.

    Raises:
        ContainerError: An interface or a model is damaged.
    """
    manifest = file.manifest
    models = {name: file.model(name) for name in file.graphs}
    uses = Counter(h for graph in models.values() if graph is not None for h in _constants(graph))
    facts = manifest.fingerprint
    tensors = file.tensors()
    info: dict[str, Any] = {
        "backendId": _BACKENDS.get(manifest.backend, 0),
        "backendName": manifest.backend,
        "buildId": f"{manifest.producer.tool} {manifest.producer.version}",
        "backendApiVersion": facts.get("version", ""),
        "contextBlobVersion": str(file.version),
        "contextBlobSize": file.nbytes,
        "numContextTensors": len(tensors),
        "contextTensors": _records(_tensor(i, t) for i, t in enumerate(tensors)),
        "numGraphs": len(file.graphs),
        "graphs": _records(_graph(file, name, models[name], uses) for name in file.graphs),
    }
    processor = facts.get("processor", "")
    if found := _ARCH.search(processor):
        info["socVersion"] = processor
        info["contextMetadata"] = _record({"dspArch": int(found[1])})
    return _record(info)


def _graph(
    file: ContextFile, name: str, model: Graph | None, uses: Mapping[str, int]
) -> dict[str, Any]:
    inputs, outputs = file.interface(name)
    changing = [t for t in model.tensors.values() if t.kind.is_updateable] if model else []
    entry = file.graphs[name]
    constants = {} if model is None else _constants(model)
    info: dict[str, Any] = {"graphName": name}
    parts = {"GraphInputs": inputs, "GraphOutputs": outputs, "UpdateableTensors": changing}
    number = 0
    for key, tensors in parts.items():
        info[f"num{key}"] = len(tensors)
        own = [_tensor(number + i, tensor) for i, tensor in enumerate(tensors)]
        info[key[0].lower() + key[1:]] = _records(own)
        number += len(tensors)
    sizes = {
        "ioTensorSize": sum(t.spec.nbytes for t in (*inputs, *outputs)),
        "opDataSize": 0 if entry.plan is None else file.sizes()[entry.plan],
        "ddrTensorSize": entry.memory_bytes,
    }
    if model is not None:  # otherwise only the backend knows
        sizes["constSize"] = sum(constants.values())
        sizes["sharedWeightsSize"] = sum(n for key, n in constants.items() if uses[key] > 1)
    info["graphBlobInfoV2"] = sizes
    if file.manifest.backend == "htp":
        info["graphBlobInfo"] = _record(_htp_blob(entry.config))
    return info


def _htp_blob(config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "vtcmSize": config.get("vtcm_mb", 0),
        "optimizationLevel": config.get("O", 2),
        "htpDlbc": config.get("dlbc", 0),
        "numHvxThreads": config.get("hvx_threads") or 0,
    }


def _constants(graph: Graph) -> dict[str, int]:
    """Return the sizes of a graph's constants in bytes, by hash."""
    found = (tensor.data for tensor in static_tensors(graph))
    return {blob.hash: blob.nbytes for blob in found if blob is not None}


def _tensor(number: int, tensor: Tensor) -> dict[str, Any]:
    is_dense = tensor.data_format is DataFormat.DENSE
    layout = "FLAT_BUFFER" if is_dense else tensor.data_format.name
    return {
        "id": number,
        "name": tensor.name,
        "type": f"QNN_TENSOR_TYPE_{tensor.kind.name}",
        "dataFormat": f"QNN_TENSOR_DATA_FORMAT_{layout}",
        "dataType": f"QNN_DATATYPE_{tensor.dtype.name}",
        "memType": f"QNN_TENSORMEMTYPE_{tensor.memory_type.name}",
        "rank": len(tensor.shape),
        "dimensions": list(tensor.shape),
        "isDynamicDimensions": list(map(int, tensor.dynamic)),
        "quantizeParams": quantize_params(tensor.encoding),
    }


def _record(info: Mapping[str, Any]) -> dict[str, Any]:
    return {"info": dict(info), "version": _VERSION}


def _records(infos: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [_record(info) for info in infos]
