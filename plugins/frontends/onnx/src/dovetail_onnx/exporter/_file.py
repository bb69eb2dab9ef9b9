"""Atomic writing of a model, with its weights in a separate file if necessary."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from onnx import ModelProto, TensorProto

from dovetail.files import atomic_write
from dovetail.ir import Shape
from dovetail_onnx.exporter._model import Initializer, ModelBuilder
from dovetail_onnx.exporter._options import OnnxExportOptions

# A protobuf message holds less than 2 GiB; all but the weights takes far less than the rest.
_MOST_BYTES = 2**31 - 2**26
# In a data file weights begin at multiples of a page, so that they can be mapped.
_ALIGNMENT = 4096
# Smaller ones stay in the model, where shape inference looks for them.
_LEAST_EXTERNAL = 1024


def write(
    builder: ModelBuilder,
    outputs: Sequence[tuple[str, int, Shape]],
    path: Path,
    options: OnnxExportOptions,
) -> None:
    """Write a model; equal models produce equal bytes.

    Args:
        builder: Builds the model.
        outputs: Name, element type and shape of each output.
        path: The file. A data file goes next to it, under its name and `.data`.
        options: What the model says of itself, and whether weights go to the data file even if
            the model can hold them.

    Raises:
        ContainerError: A file cannot be written; then there is none, or the old one.
    """
    model = builder.proto(outputs)
    for name in ("model_version", "copyright"):
        if value := getattr(options, name):
            model.metadata_props.add(key=name, value=value)
    pairs = list(zip(model.graph.initializer, builder.constants.values(), strict=True))
    total = sum(made.data.nbytes for _, made in pairs)
    if not options.external_data and total <= _MOST_BYTES:
        for proto, made in pairs:
            proto.raw_data = made.data.tobytes()
        _write_model(model, path)
        return
    data = data_path(path)
    existed = data.exists()
    _write_data(pairs, data)
    try:
        _write_model(model, path)
    except BaseException:
        if not existed:
            data.unlink(missing_ok=True)
        raise


def data_path(path: Path) -> Path:
    """Return the file of a model's weights, if they are not in the model."""
    return path.with_name(f"{path.name}.data")


def _write_model(model: ModelProto, path: Path) -> None:
    with atomic_write(path) as file:
        file.write(model.SerializeToString(deterministic=True))


def _write_data(pairs: Sequence[tuple[TensorProto, Initializer]], path: Path) -> None:
    with atomic_write(path) as file:
        end = 0
        for proto, made in pairs:
            if made.data.nbytes < _LEAST_EXTERNAL:
                proto.raw_data = made.data.tobytes()
                continue
            start = -(-end // _ALIGNMENT) * _ALIGNMENT
            file.write(bytes(start - end))
            file.write(made.data.data)
            end = start + made.data.nbytes
            place = {"location": path.name, "offset": str(start), "length": str(made.data.nbytes)}
            proto.data_location = TensorProto.EXTERNAL
            for key, value in place.items():
                proto.external_data.add(key=key, value=value)
