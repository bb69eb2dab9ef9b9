"""The op package; the modules of `dovetail_opset.ops` register their ops when imported."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from dovetail.errors import PluginError
from dovetail.ir import Graph, Node
from dovetail.ops import Op, OpPackage, OpSchema
from dovetail_opset.families import FAMILIES

OPS = "dovetail_opset.ops"
DEFINITIONS = "spec/qnn_ops.md"

OpClass = TypeVar("OpClass", bound=type[Op])


class FamilyPackage(OpPackage):
    """An op package that imports an op's module when the op is first requested.

    Args:
        name: The name that nodes use.
        version: The version of the op set.
        homes: The module of each op.
    """

    def __init__(self, name: str, version: str, homes: Mapping[str, str]) -> None:
        super().__init__(name, version)
        self._homes = homes
        self._lazy_schemas = _Schemas(super().schemas, homes)

    def op(self, name: str) -> Callable[[OpClass], OpClass]:
        """Register the decorated class as the op `name`.

        Its `source`, where it states none of its own, is the op's entry in `DEFINITIONS`.

        Raises:
            PluginError: The class does not meet the contract, the name is taken, or the op is not
                listed for this module.
        """
        register: Callable[[OpClass], OpClass] = super().op(name)

        def register_announced(cls: OpClass) -> OpClass:
            if self._homes.get(name) != cls.__module__:
                raise PluginError(
                    f"op '{name}' is not listed for its module",
                    where=f"{cls.__module__}.{cls.__qualname__}",
                    hint="list it in dovetail_opset/families.py",
                )
            if "source" not in vars(cls):
                cls.source = f"{DEFINITIONS}, {name}"
            return register(cls)

        return register_announced

    @property
    def schemas(self) -> Mapping[str, OpSchema]:
        """All ops by name; names and their number are known without an import."""
        return self._lazy_schemas


class _Schemas(Mapping[str, OpSchema]):
    """The registered ops, and those that importing a module will register."""

    def __init__(self, registered: Mapping[str, OpSchema], homes: Mapping[str, str]) -> None:
        self._registered = registered
        self._homes = homes

    def __getitem__(self, name: str) -> OpSchema:
        found = self._registered.get(name)
        if found is None and name in self._homes:
            importlib.import_module(self._homes[name])
        return found or self._registered[name]

    def __contains__(self, name: object) -> bool:
        return name in self._homes

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)


STANDARD = "qti.aisw"  # the package of nodes and kernels of standard ops
PACKAGE = FamilyPackage(
    STANDARD,
    "2.7.0",
    {op: f"{OPS}.{family}" for family, ops in FAMILIES.items() for op in ops},
)


def schema_of(node: Node) -> OpSchema | None:
    """Return the schema of a node of the standard set, None for another package's."""
    return PACKAGE.schemas.get(node.op_type) if node.package == STANDARD else None


def is_op(node: Node | None, *op_types: str) -> bool:
    """Return whether a node is one of these standard ops."""
    return node is not None and node.package == STANDARD and node.op_type in op_types


def nodes_of(graph: Graph, *op_types: str) -> Iterator[Node]:
    """Yield the nodes that are of these standard ops when they are reached, in order."""
    return (n for n in graph.nodes if n.op_type in op_types and n.package == STANDARD)
