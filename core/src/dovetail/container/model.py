"""Model: named graphs and what is known of their making; the unit of a `.dvt` file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dovetail.container._format import Kind
from dovetail.container._graphs import dump_graph, load_graph
from dovetail.container._manifest import ManifestError, ModelManifest
from dovetail.container._reader import (
    Container,
    Integrity,
    check_integrity,
    check_padding,
    open_container,
)
from dovetail.container._writer import BlobTable, write_container
from dovetail.container.producer import Producer
from dovetail.errors import GraphError
from dovetail.ir import Blob, Graph
from dovetail.ops import OpRegistry


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """Named graphs, who made them, and the op packages they use.

    Tensors of one graph or of several may share blobs; a file holds each blob once.

    Attributes:
        graphs: Graphs by name, in order.
        producer: Who made the model, from what.
        op_packages: Versions of op packages by name; all that the graphs use, when it is saved.

    Raises:
        GraphError: A graph is under another name than its own.
    """

    graphs: dict[str, Graph]
    producer: Producer
    op_packages: dict[str, str]

    def __post_init__(self) -> None:
        for name, graph in self.graphs.items():
            if name != graph.name:
                raise GraphError(
                    f"graph '{graph.name}' is under the name '{name}'",
                    hint="a model's graphs are under their own names",
                )

    @classmethod
    def of(cls, *graphs: Graph, producer: Producer, registry: OpRegistry) -> Model:
        """Return the model of some graphs, with the versions of their op packages.

        Args:
            graphs: In order; their names must differ.
            producer: Who made them.
            registry: Has the op packages that they use.

        Raises:
            GraphError: Two graphs have one name.
            UnsupportedOpError: An op package is not in the registry.
        """
        named: dict[str, Graph] = {}
        for graph in graphs:
            if named.setdefault(graph.name, graph) is not graph:
                raise GraphError(
                    f"there are two graphs named '{graph.name}'", hint="rename one of them"
                )
        packages = sorted(set(packages_of(named)))
        return cls(named, producer, {name: registry.package(name).version for name in packages})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model; after an error there is no file, or the old one.

        Equal models give equal bytes.

        Raises:
            GraphError: A graph is not well formed, or uses an op package without a version.
            ContainerError: The file cannot be written, or data of the model are damaged.
        """
        if missing := unversioned(self.graphs, self.op_packages):
            raise GraphError(
                f"the model does not say which version of {', '.join(missing)} it uses",
                hint="name it in `op_packages`, or make the model with `Model.of`",
            )
        table = BlobTable()
        graphs = tuple(dump_graph(graph, table) for graph in self.graphs.values())
        manifest = ModelManifest((), self.producer, self.op_packages, graphs)
        write_container(path, Kind.MODEL, manifest, table)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        integrity: Integrity = "bind",
        *,
        map_weights: bool = True,
    ) -> Model:
        """Load a model from a file.

        Args:
            path: A `.dvt` file.
            integrity: "bind" to check each blob when it is first used, "manifest" to check only
                header, manifest and padding.
            map_weights: Whether the file stays mapped, and weights are read when they are first
                used. It must then not be changed in place; docs/container.md says what happens.
                Otherwise all of it is read into memory at once.

        Raises:
            FrontendError: The file cannot be read.
            ContainerError: It holds no model, is of a newer format, or is damaged.
            ConfigError: `integrity` is neither of the two.
        """
        check_integrity(integrity)
        container = open_container(path, Kind.MODEL, ModelManifest, mapped=map_weights)
        check_padding(container)
        return model_of(container, container.blobs(integrity))


def model_of(container: Container[ModelManifest], blobs: tuple[Blob, ...]) -> Model:
    """Return the model that an open container holds.

    Raises:
        ContainerError: The manifest makes no model.
    """
    manifest, where = container.manifest, container.where
    graphs: dict[str, Graph] = {}
    for i, entry in enumerate(manifest.graphs):
        place = f"{where}: $.graphs[{i}]"
        if entry.name in graphs:
            raise ManifestError(f"there are two graphs named '{entry.name}'", where=place)
        graphs[entry.name] = load_graph(entry, blobs, place)
    if missing := unversioned(graphs, manifest.op_packages):
        raise ManifestError(
            f"there is no version of {', '.join(missing)}", where=f"{where}: $.op_packages"
        )
    return Model(graphs, manifest.producer, manifest.op_packages)


def packages_of(graphs: Mapping[str, Graph]) -> Iterator[str]:
    """Return the op package of every node."""
    return (node.package for graph in graphs.values() for node in graph.nodes)


def unversioned(graphs: Mapping[str, Graph], versions: Mapping[str, str]) -> list[str]:
    """Return the op packages that are used but have no version, sorted."""
    return sorted(set(packages_of(graphs)) - versions.keys())
