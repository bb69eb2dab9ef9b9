"""The data of static tensors, from the tar file next to a model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from dovetail.errors import Problem
from dovetail.files import contained
from dovetail.ir import Blob, DType, Shape, Tensor
from dovetail_qnn._tar import SUFFIX, Weights

BIN = ".bin"
_NONE = ("", "NA", "N/A")


def find_weights(path: Path, stated: object, stem: str) -> Weights | None:
    """Return the weights of a model; None if there is no such file.

    Args:
        path: The model.
        stated: The path that the model states; only the last part counts, in the model's folder.
        stem: Name of the file without suffix if the stated one does not exist.

    Raises:
        FrontendError: The file cannot be read, or a link leads to another folder.
    """
    names = [f"{stem}{BIN}"]
    if isinstance(stated, str) and stated not in _NONE:
        names.insert(0, stated.replace("\\", "/").rsplit("/", 1)[-1])
    for name in names:
        found = contained(path.parent, name)
        if found.is_file() and not found.samefile(path):
            return Weights(found)
    return None


def attach_weights(tensors: Iterable[Tensor], weights: Weights | None) -> Iterator[Problem]:
    """Set the data of static tensors that have none; yield the faults of the file.

    Tensors are named as in the file.
    """
    if weights is not None:
        yield from weights.problems
    missing = []
    for tensor in tensors:
        if not tensor.kind.is_static or tensor.data is not None:
            continue
        blob = None if weights is None else weights.blob(tensor.name)
        if blob is None:
            missing.append(tensor.name)
            continue
        if fault := data_fault(blob, tensor.dtype, tensor.shape):
            yield Problem(fault, f"tensor '{tensor.name}'")
        else:
            tensor.data = _sign_extended(blob, tensor)
    if missing:
        shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        lack = "no file with weights" if weights is None else f"no data in {weights.path.name}"
        yield Problem(
            f"{lack} for {len(missing)} static tensors: {shown}",
            hint="put the converter's MODEL.bin, a tar file with TENSOR"
            f"{SUFFIX} for each, next to the model",
        )


def data_fault(blob: Blob, dtype: DType, shape: Shape) -> str:
    """Return why bytes cannot be the data of a tensor; empty if they can."""
    if dtype is not DType.STRING:
        wanted = dtype.nbytes(shape)
        found = f"has {blob.nbytes} bytes of data"
        return "" if blob.nbytes == wanted else f"{found}, but {dtype.name} {shape} takes {wanted}"
    stored, count = blob.bytes.tobytes(), math.prod(shape)
    try:
        stored.decode()
    except UnicodeDecodeError:
        return "has text that is not UTF-8"
    is_complete = stored.count(b"\0") == count and (not stored or stored.endswith(b"\0"))
    return "" if is_complete else f"has data that are not {count} texts, each ended by a zero byte"


def _sign_extended(blob: Blob, tensor: Tensor) -> Blob:
    """Return narrow signed integers with the sign in all high bits, as our tensors store them."""
    width = None if tensor.encoding is None else tensor.encoding.bitwidth
    storage = tensor.dtype.storage
    gap = 0 if width is None or width < 1 else tensor.dtype.bits - width
    if tensor.dtype.is_packed or storage.kind != "i" or gap <= 0:
        return blob
    values = blob.bytes.view(storage)
    extended = values << gap >> gap
    return blob if np.array_equal(values, extended) else Blob(extended)
