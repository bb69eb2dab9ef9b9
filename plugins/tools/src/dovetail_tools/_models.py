"""The models of a command line, and their graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dovetail.api import Model, load_model
from dovetail.errors import FrontendError, Problem, suggest_name
from dovetail.ir import Graph
from dovetail.ops import OpRegistry


def load_graphs(
    paths: Sequence[Path],
    ops: OpRegistry,
    *,
    map_weights: bool = True,
    input_format: str | None = None,
) -> list[tuple[Model, Graph]]:
    """Return the graphs of model files, in order, each with its model.

    Args:
        paths: The files.
        ops: The ops.
        map_weights: Whether files of weights are mapped; otherwise they are read into memory.
        input_format: Name of the frontend that reads the models; None to find it.

    Raises:
        DovetailError: A model cannot be loaded, or two graphs have the same name.
    """
    models = [load_model(p, ops, map_weights=map_weights, input_format=input_format) for p in paths]
    found: dict[str, tuple[Model, Graph]] = {}
    for model, path in zip(models, paths, strict=True):
        for name, graph in model.graphs.items():
            if name in found:
                raise FrontendError(
                    f"duplicate graph name '{name}' in several models",
                    where=str(path),
                    hint="convert one model again with another --graph-name",
                )
            found[name] = model, graph
    return list(found.values())


def model_of(model: Model, graph: Graph) -> Model:
    """Return a model of one of its graphs alone."""
    return Model({graph.name: graph}, model.producer, model.op_packages)


def unknown_names(
    where: str,
    what: str,
    given: Sequence[str] | Mapping[str, object],
    known: Sequence[str] | Mapping[str, str],
) -> list[Problem]:
    """Return a problem for each name that an option gives and nothing has.

    Args:
        where: The option.
        what: Kind of the named objects.
        given: The names.
        known: The valid names; or their accepted spellings, with the name of each.
    """
    names = list(dict.fromkeys(known.values())) if isinstance(known, Mapping) else known
    return [
        Problem(f"{what} '{name}' not found", where, suggest_name(name, names))
        for name in given
        if name not in known
    ]
