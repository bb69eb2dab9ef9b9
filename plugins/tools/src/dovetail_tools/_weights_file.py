"""Models whose weights are in a file of their own."""

from __future__ import annotations

import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from dovetail.container import Weights
from dovetail.errors import DovetailError, FrontendError, Problem
from dovetail.files import identifier, unreadable
from dovetail.ir import DType, Tensor, TensorKind

_WEIGHTS, _NET, _RAW = ".bin", "_net", ".raw"


@contextmanager
def next_to_weights(model: Path, weights: Path | None) -> Iterator[Path]:
    """Yield the path of a model whose weights are next to it, where frontends look for them.

    Args:
        model: The model.
        weights: The file of its weights; None for the one next to it.

    Raises:
        FrontendError: One of the files cannot be read.
    """
    stem = model.stem.removesuffix(_NET)
    if weights is None or _is_same(weights, model.with_name(f"{stem}{_WEIGHTS}")):
        yield model
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, copy in ((model, model.name), (weights, f"{stem}{_WEIGHTS}")):
            try:
                _link(path, folder / copy)
            except OSError as error:
                raise unreadable(path, error) from error
        try:
            yield folder / model.name
        except DovetailError as error:
            copies = {
                str(folder / model.name): str(model),
                str(folder / f"{stem}{_WEIGHTS}"): str(weights),
                f"{stem}{_WEIGHTS}": str(weights),
            }
            _name_originals(error, copies)
            raise


def _name_originals(error: DovetailError, originals: Mapping[str, str]) -> None:
    """Replace the names of copies in an error, which the user does not know."""
    names = re.compile("|".join(map(re.escape, originals)))  # the first that matches counts

    def said(text: str) -> str:
        return names.sub(lambda found: originals[found[0]], text)

    error.message, error.where = said(error.message), said(error.where)
    error.problems = tuple(Problem(said(p.message), said(p.where), p.hint) for p in error.problems)


def _is_same(path: Path, other: Path) -> bool:
    return path.exists() and other.exists() and path.samefile(other)


def _link(path: Path, to: Path) -> None:
    try:
        os.link(path.resolve(), to)
    except OSError:  # another file system, or one without links
        shutil.copyfile(path, to)


def is_weights_file(path: Path) -> bool:
    """Return whether a file is a tar, as converters write weights."""
    try:
        return path.suffix.lower() == _WEIGHTS and tarfile.is_tarfile(path)
    except OSError:
        return False


def weights_in_tar(path: Path) -> Mapping[str, Tensor]:
    """Return the weights in a tar of `NAME.raw`, by name, mapped; types and shapes are unknown.

    Raises:
        FrontendError: The file cannot be read, or is damaged.
    """
    found: dict[str, Tensor] = {}
    try:
        with tarfile.open(path, "r:") as tar:
            for entry in tar:
                if not entry.isfile() or not entry.name.endswith(_RAW):
                    continue
                name, data = entry.name.removesuffix(_RAW), np.empty(0, np.uint8)
                if entry.size:
                    data = np.memmap(path, np.uint8, "r", entry.offset_data, (entry.size,))
                found[name] = Tensor.static(name, data, DType.UINT_8)
            end = np.memmap(path, np.uint8, "r")[tar.offset :][: tarfile.BLOCKSIZE]
            if end.any():  # `tarfile` takes half a header for the end
                raise ValueError("unexpected end")
    except OSError as error:
        raise unreadable(path, error) from error
    except (tarfile.TarError, ValueError) as error:
        raise FrontendError(f"the file of weights is damaged: {error}", where=str(path)) from error
    return found


def with_types(weights: Weights, others: Weights) -> Weights:
    """Return the weights of a tar with types, shapes and encodings of those of the same name.

    Weights of another size stay as they are.
    """
    known = {identifier(name): each for found in others.values() for name, each in found.items()}
    return {
        graph: {name: _typed(tensor, known.get(identifier(name))) for name, tensor in found.items()}
        for graph, found in weights.items()
    }


def _typed(tensor: Tensor, other: Tensor | None) -> Tensor:
    if other is None or other.data is None or tensor.data is None:
        return tensor
    if other.data.nbytes != tensor.data.nbytes:
        return tensor
    kind, encoding = TensorKind.STATIC, other.encoding
    return Tensor(tensor.name, other.dtype, other.shape, kind, encoding=encoding, data=tensor.data)
