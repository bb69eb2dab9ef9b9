"""Models whose weights are in a file of their own."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from dovetail.errors import DovetailError, Problem
from dovetail.files import unreadable
from dovetail_tools._option_values import is_same

_WEIGHTS, _NET = ".bin", "_net"


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
    if weights is None or is_same(weights, model.with_name(f"{stem}{_WEIGHTS}")):
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


def _link(path: Path, to: Path) -> None:
    try:
        os.link(path.resolve(), to)
    except OSError:  # another file system, or one without links
        shutil.copyfile(path, to)
