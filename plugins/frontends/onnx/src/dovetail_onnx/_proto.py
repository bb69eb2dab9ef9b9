"""Reading of the model file: whether it is ONNX, and complete."""

from __future__ import annotations

from pathlib import Path

from google.protobuf.message import DecodeError
from onnx import ModelProto

from dovetail.errors import FrontendError, Problem
from dovetail.files import unreadable
from dovetail_onnx._payloads import Payloads

# Maximum size of a protobuf message.
MAX_BYTES = 2**31 - 1
_MAX_VERSION = 2**31 - 1
# First bytes of files that are often mistaken for ONNX files.
_OTHERS = (
    (b"PK\x03\x04", "a zip archive, as PyTorch and Keras write them; export the model to ONNX"),
    (b"\x89HDF", "an HDF5 file, as Keras writes them; convert it to ONNX first"),
    (b"version https://git-lfs", "a Git LFS pointer; fetch the file with `git lfs pull`"),
    (b"<", "a web page or XML; download the file itself"),
    (b"{", "JSON; convert it to the binary form with onnx.save"),
)


def looks_like_onnx(path: Path) -> bool:
    """Return whether the first bytes of a file are those of an ONNX model: a small ir_version."""
    try:
        with path.open("rb") as file:
            head = file.read(3)
    except OSError:
        return False  # the code that opens it next reports the reason
    # field 1 (ir_version), a varint below 128, then the key of one of ModelProto's next fields
    return len(head) == 3 and head[0] == 0x08 and 0 < head[1] < 64 and head[2] in _NEXT_KEYS


# producer_name, producer_version, domain, model_version, doc_string, graph, opset_import
_NEXT_KEYS = (0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42)


def read_proto(path: Path) -> tuple[ModelProto, Payloads]:
    """Return the model in a file without the elements of large initializers, and these.

    Raises:
        FrontendError: The file cannot be read, or is not a whole ONNX model.
    """
    payloads = _read(path)
    data, model = payloads.rest, ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise _not_onnx(path, data, "the bytes are not a complete ONNX message") from error
    if not model.HasField("graph") or model.ir_version < 1:
        raise _not_onnx(path, data, "the graph is missing")
    if not model.opset_import and model.ir_version >= 3:
        raise _not_onnx(path, data, "the operator set is missing")
    _check_versions(model)
    return model, payloads


def _check_versions(model: ModelProto) -> None:
    """Raise if a version is negative or exceeds the 32 bits of ONNX's own code."""
    given = [("the ir_version", model.ir_version)]
    given += [
        (f"the version of the operator set '{entry.domain}'", entry.version)
        for part in (model, *model.functions)
        for entry in part.opset_import
    ]
    problems = [
        Problem(f"{what} is {version}, which does not exist")
        for what, version in given
        if not 0 <= version <= _MAX_VERSION
    ]
    if problems:
        raise FrontendError(
            "the model is not well formed",
            problems=problems,
            hint="the file is damaged; fetch or export the model again",
        )


def _read(path: Path) -> Payloads:
    try:
        size = path.stat().st_size
        if path.is_file() and size > MAX_BYTES:
            raise FrontendError(
                f"the file has {size} bytes; an ONNX file holds at most {MAX_BYTES}",
                where=str(path),
                hint="save the model with its weights as external data "
                "(onnx.save_model(..., save_as_external_data=True))",
            )
    except OSError as error:
        raise unreadable(path, error) from error
    payloads = Payloads(path)
    if not payloads.rest:
        raise FrontendError(
            "the file is empty", where=str(path), hint="export or download the model again"
        )
    return payloads


def _not_onnx(path: Path, data: bytes, why: str) -> FrontendError:
    for magic, what in _OTHERS:
        if data.lstrip()[: len(magic)] == magic:
            return FrontendError(f"not an ONNX file: {what}", where=str(path))
    return FrontendError(
        f"not an ONNX file, or cut short: {why}",
        where=str(path),
        hint="compare its size with the original's, or export or download the model again",
    )
