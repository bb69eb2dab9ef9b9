"""Model: named graphs and their origin; the content of a `.dvt` file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import msgspec

from dovetail.arguments import check_arguments, check_fields
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
from dovetail.container._versions import version_of
from dovetail.container._writer import BlobTable, write_container
from dovetail.container.producer import Producer
from dovetail.errors import GraphError
from dovetail.ir import Blob, Graph
from dovetail.ops import OpRegistry


class Model(msgspec.Struct, frozen=True, eq=False):
    """Named graphs, their producer, and the op packages that they use.

    Tensors of one or several graphs may share blobs; a file contains each blob once.

    Attributes:
        graphs: Graphs by name, in order.
        producer: The program that created the model, and its source.
        op_packages: Versions of op packages by name; must include all that the graphs use to be
            saved.

    Raises:
        GraphError: A graph's key differs from its name.
    """

    graphs: dict[str, Graph]
    producer: Producer
    op_packages: dict[str, str]

    def __post_init__(self) -> None:
        check_fields(self)
        for name, graph in self.graphs.items():
            if not isinstance(graph, Graph):
                raise GraphError(
                    f"expected a graph under the key '{name}', got {type(graph).__name__}",
                    hint="pass a mapping from names to graphs",
                )
            if name != graph.name:
                raise GraphError(
                    f"graph '{graph.name}' has the key '{name}'",
                    hint="use the names of the graphs as keys",
                )

    @classmethod
    @check_arguments
    def of(cls, *graphs: Graph, producer: Producer, registry: OpRegistry) -> Model:
        """Create a model from graphs, with the versions of their op packages.

        Args:
            graphs: The graphs in order; their names must differ.
            producer: The program that created them.
            registry: Contains the op packages that they use.

        Raises:
            GraphError: Two graphs have the same name.
            UnsupportedOpError: An op package is not in the registry.
        """
        named: dict[str, Graph] = {}
        for graph in graphs:
            if named.setdefault(graph.name, graph) is not graph:
                raise GraphError(f"duplicate graph name '{graph.name}'", hint="rename one of them")
        packages = sorted(set(packages_of(named)))
        return cls(named, producer, {name: registry.package(name).version for name in packages})

    @check_arguments
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file; an error leaves no file, or the old one.

        Equal models produce equal bytes.

        Raises:
            GraphError: A graph is not well formed, or uses an op package without a version.
            ContainerError: The file cannot be written, or data of the model are damaged or have
                changed.
        """
        if missing := unversioned(self.graphs, self.op_packages):
            raise GraphError(
                f"missing version of op package {', '.join(missing)}",
                hint="add it to `op_packages`, or create the model with `Model.of`",
            )
        table = BlobTable()
        graphs = tuple(dump_graph(graph, table) for graph in self.graphs.values())
        minor, requires = version_of(graphs)
        manifest = ModelManifest(
            (), self.producer, self.op_packages, graphs, minor=minor, requires=requires
        )
        write_container(path, Kind.MODEL, manifest, table)

    @classmethod
    @check_arguments
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
            map_weights: Whether the file stays mapped and weights are read when they are first
                used. The file must then not be changed in place (see docs/container.md). Otherwise
                the whole file is read into memory.

        Raises:
            FrontendError: The file cannot be read.
            ContainerError: The file contains no model, has a newer format, or is damaged.
            ConfigError: `integrity` is unknown.
        """
        check_integrity(integrity)
        container = open_container(path, Kind.MODEL, ModelManifest, mapped=map_weights)
        check_padding(container)
        return model_of(container, container.blobs(integrity))


def model_of(container: Container[ModelManifest], blobs: tuple[Blob, ...]) -> Model:
    """Return the model in an open container.

    Raises:
        ContainerError: The manifest does not describe a model.
    """
    manifest, where = container.manifest, container.where
    graphs: dict[str, Graph] = {}
    for i, entry in enumerate(manifest.graphs):
        place = f"{where}: $.graphs[{i}]"
        if entry.name in graphs:
            raise ManifestError(f"duplicate graph name '{entry.name}'", where=place)
        graphs[entry.name] = load_graph(entry, blobs, place)
    if missing := unversioned(graphs, manifest.op_packages):
        raise ManifestError(
            f"missing version of op package {', '.join(missing)}", where=f"{where}: $.op_packages"
        )
    return Model(graphs, manifest.producer, manifest.op_packages)


def packages_of(graphs: Mapping[str, Graph]) -> Iterator[str]:
    """Return the op package of every node."""
    return (node.package for graph in graphs.values() for node in graph.nodes)


def unversioned(graphs: Mapping[str, Graph], versions: Mapping[str, str]) -> list[str]:
    """Return the used op packages without a version, sorted."""
    return sorted(set(packages_of(graphs)) - versions.keys())
