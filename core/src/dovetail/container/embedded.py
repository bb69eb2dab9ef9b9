"""The models in context binaries."""

from __future__ import annotations

from dovetail.container.context import ContextFile
from dovetail.container.model import Model
from dovetail.errors import ContainerError


def embedded_model(file: ContextFile) -> Model:
    """Return the graphs that a context binary was created from.

    Raises:
        ContainerError: They are not all embedded, or are damaged.
    """
    models = {name: file.model(name) for name in file.graphs}
    graphs = {name: model for name, model in models.items() if model is not None}
    if missing := [name for name in models if name not in graphs]:
        raise ContainerError(
            f"the file has no model of graph {', '.join(missing)}",
            code="CONTAINER_INCOMPATIBLE",
            where=file.where,
            hint="create it from the models again, with --embed-model, or use these models",
        )
    return Model(graphs, file.manifest.producer, file.manifest.op_packages)
