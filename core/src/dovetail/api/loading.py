"""Loading of models: of `.dvt` files, and of files that frontends convert."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from dovetail.arguments import check_arguments
from dovetail.container import Model, is_container
from dovetail.errors import ConfigError
from dovetail.files import PathLike
from dovetail.ir import Blob
from dovetail.ops import OpRegistry
from dovetail.plugins.models import model_path
from dovetail.runtime.names import reject_foreign

SUFFIX = ".dvt"


@check_arguments
def load(path: PathLike, *, map_weights: bool = True) -> Model:
    """Load a `.dvt` model.

    Args:
        path: The file, or the name of an installed model.
        map_weights: Whether weights are read from the file when they are used, so that the file
            must not be changed in place. Otherwise the whole file is read into memory.

    Raises:
        ContainerError: The file is not a container, or is damaged.
        ConfigError: `path` is not a path.
    """
    source = model_path(path)
    if not is_container(source):
        reject_foreign(source)
    return Model.load(source, map_weights=map_weights)


@check_arguments
def load_model(
    path: PathLike,
    ops: OpRegistry | None = None,
    *,
    map_weights: bool = True,
    input_format: str | None = None,
) -> Model:
    """Load a `.dvt` model, or convert any other model file that an installed frontend reads.

    Args:
        path: The file, or the name of an installed model.
        ops: Ops for a conversion; by default those of all installed op packages.
        map_weights: As for `load`; if it is off, a conversion reads all external data into memory.
        input_format: As for `convert`; a `.dvt` model needs none.

    Raises:
        DovetailError: The file cannot be loaded or converted.
    """
    path = model_path(path)
    if input_format is None and is_converted(path):
        return load(path, map_weights=map_weights)
    # imported here: a model that is already converted does without
    from dovetail.api.conversion import convert

    model = convert(path, ops=ops, input_format=input_format)
    if not map_weights:
        _detach(model)
    return model


def given_models(
    model: Model | PathLike | Sequence[Model | PathLike],
) -> tuple[Model | PathLike, ...]:
    """Return the models of a session, none of them loaded yet.

    Raises:
        ConfigError: There are none.
    """
    found = (model,) if isinstance(model, Model | str | os.PathLike) else tuple(model)
    if not found:
        raise ConfigError("no model given", code="USAGE", hint="pass a model or its path")
    return found


def load_models(
    given: Sequence[Model | PathLike],
    ops: OpRegistry | None,
    *,
    map_weights: bool,
    input_format: str | None,
) -> list[Model]:
    """Return the models of a session: paths are loaded as by `load_model`."""
    return [
        each
        if isinstance(each, Model)
        else load_model(each, ops, map_weights=map_weights, input_format=input_format)
        for each in given
    ]


def _detach(model: Model) -> None:
    """Move all weights into private memory; tensors that share a blob still do."""
    private: dict[Blob, Blob] = {}
    for graph in model.graphs.values():
        for tensor in graph.tensors.values():
            if tensor.data is not None:
                if tensor.data not in private:
                    private[tensor.data] = tensor.data.detached()
                tensor.data = private[tensor.data]


def is_converted(path: PathLike) -> bool:
    """Return whether a file is a Dovetail model, by its name or its first bytes."""
    return Path(path).suffix.lower() == SUFFIX or is_container(path)
