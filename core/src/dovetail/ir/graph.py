"""The graph, the mutable representation of a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dovetail.errors import GraphError, counted, suggest_name
from dovetail.ir.ordering import topological_order
from dovetail.ir.tensor import Scalar, Spec, Tensor, TensorKind

Param = Scalar | Tensor


class Node:
    """A use of an op. Compared by identity; changed only through its graph.

    Attributes:
        name: Unique within the graph.
        package: Name of the op package.
        op_type: Name of the op in it.
        inputs: Tensors read, in the op's order; None for an omitted optional input.
        outputs: Tensors written.
        params: Scalars and static tensors by name.
        sources: Names of the nodes of the user's model that it represents.
    """

    __slots__ = ("inputs", "name", "op_type", "outputs", "package", "params", "sources")

    def __init__(
        self,
        name: str,
        package: str,
        op_type: str,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor],
        params: Mapping[str, Param] | None = None,
        *,
        sources: Iterable[str] | None = None,
    ) -> None:
        self.name = name
        self.package = package
        self.op_type = op_type
        self.inputs: tuple[Tensor | None, ...] = tuple(inputs)
        self.outputs: tuple[Tensor, ...] = tuple(outputs)
        self.params: dict[str, Param] = dict(params or {})
        self.sources: tuple[str, ...] = (name,) if sources is None else tuple(sources)

    def with_tensors(
        self,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor],
        *,
        name: str | None = None,
    ) -> Node:
        """Return a copy that reads and writes other tensors, with another name if one is given."""
        return Node(
            self.name if name is None else name,
            self.package,
            self.op_type,
            inputs,
            outputs,
            self.params,
            sources=self.sources,
        )

    def __getstate__(self) -> object:
        return super().__getstate__()  # stated here: old protocols of pickle require it

    @property
    def where(self) -> str:
        """The node in the user's terms, for errors and profile lines."""
        known = [s for s in self.sources if s != self.name]
        origin = f" (from {', '.join(known)})" if known else ""
        return f"{self.op_type} node '{self.name}'{origin}"

    def __repr__(self) -> str:
        return f"<Node {self.name} {self.package}::{self.op_type}>"


class Graph:
    """Tensors and nodes with their producers and consumers.

    Nodes may be added in any order; `nodes` returns them in topological order, and in order of
    insertion where the data flow permits.

    Attributes:
        name: Its name.
        source_encodings: Types, shapes and encodings that the user's model states for tensors that
            are float in the graph, by `Tensor.source`, in the layout of the user's model: those
            with which it stores constants, or those of activations in a float model. A pass that
            changes constants need not update them: their users compare them with the values.
            Without an encoding, a fixed-point type states only the bitwidth in which a tensor is
            to be quantized, and a float type states that it stays float.
        removed_sources: Names of tensors of the user's model that the conversion removed; files for
            that model may mention them.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.source_encodings: dict[str, Spec] = {}
        self.removed_sources: frozenset[str] = frozenset()
        self._tensors: dict[str, Tensor] = {}
        self._nodes: dict[str, Node] = {}
        # by stem, the last number tried; lower ones are taken until a name becomes free
        self._taken: dict[str, int] = {}
        self._producers: dict[Tensor, Node] = {}
        self._consumers: dict[Tensor, dict[Node, None]] = {}
        self._order: list[Node] | None = []
        self._view: tuple[Node, ...] = ()  # a cached copy of the order

    # -- reading ---------------------------------------------------------------------------------

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """All tensors by name, in order of insertion, without params."""
        return self._tensors

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes in topological order.

        Raises:
            GraphError: The graph has a cycle.
        """
        if self._order is None:
            self._view = self._sorted()
            self._order = list(self._view)
        elif len(self._view) < len(self._order):
            self._view = tuple(self._order)
        return self._view

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Tensors that the application writes, in order of insertion."""
        return tuple(t for t in self._tensors.values() if self.is_input(t))

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """Tensors that the application reads, in order of insertion."""
        return tuple(t for t in self._tensors.values() if self.is_output(t))

    def is_input(self, tensor: Tensor) -> bool:
        """Return whether the application writes a tensor before a run.

        A tensor of the kind APP_READWRITE passes values from one graph to another: it is an output
        of a graph that writes it, and an input of others.
        """
        kind = tensor.kind
        return kind.is_input and not (kind.is_output and tensor in self._producers)

    def is_output(self, tensor: Tensor) -> bool:
        """Return whether the application reads a tensor after a run; see `is_input`."""
        kind = tensor.kind
        return kind.is_output and not (kind.is_input and tensor not in self._producers)

    def tensor(self, name: str) -> Tensor:
        """Return a tensor by name.

        Raises:
            GraphError: The name is unknown.
        """
        try:
            return self._tensors[name]
        except KeyError:
            raise GraphError(
                f"tensor '{name}' not found",
                where=f"graph '{self.name}'",
                hint=suggest_name(name, self._tensors),
            ) from None

    def node(self, name: str) -> Node:
        """Return a node by name.

        Raises:
            GraphError: The name is unknown.
        """
        try:
            return self._nodes[name]
        except KeyError:
            raise GraphError(
                f"node '{name}' not found",
                where=f"graph '{self.name}'",
                hint=suggest_name(name, self._nodes),
            ) from None

    def has_node(self, node: Node) -> bool:
        """Return whether a node is in the graph, perhaps under another name than its own."""
        return self.has_name(node) or node in self._nodes.values()

    def has_name(self, node: Node) -> bool:
        """Return whether the graph has a node under the node's own name."""
        return self._nodes.get(node.name) is node

    def producer(self, tensor: Tensor) -> Node | None:
        """Return the node that writes a tensor, or None."""
        return self._producers.get(tensor)

    def consumers(self, tensor: Tensor) -> tuple[Node, ...]:
        """Return the nodes that read a tensor, each once."""
        return tuple(self._consumers.get(tensor, ()))

    def is_read(self, tensor: Tensor) -> bool:
        """Return whether a node reads a tensor."""
        return bool(self._consumers.get(tensor))

    def unused(self) -> list[Tensor]:
        """Return the tensors that no node writes or reads, in order of insertion."""
        producers, consumers = self._producers, self._consumers
        return [t for t in self._tensors.values() if t not in producers and not consumers.get(t)]

    def only_reader(self, tensor: Tensor) -> Node | None:
        """Return the only node that reads an internal tensor, None if anything else does."""
        readers = self._consumers.get(tensor, ())
        is_only = tensor.kind is TensorKind.NATIVE and len(readers) == 1
        return next(iter(readers)) if is_only else None

    def fresh_name(self, stem: str) -> str:
        """Return an unused name that begins with `stem`."""
        count = self._taken.get(stem, 0)  # the names with lower numbers are taken
        name = f"{stem}_{count}" if count else stem
        while name in self._tensors or name in self._nodes:
            count += 1
            name = f"{stem}_{count}"
        if count:
            self._taken[stem] = count
        return name

    # -- changing --------------------------------------------------------------------------------

    def add_tensor(self, tensor: Tensor) -> Tensor:
        """Add a tensor and return it.

        Raises:
            GraphError: The name is taken.
        """
        if tensor.name in self._tensors:
            raise GraphError(
                f"duplicate tensor name '{tensor.name}'",
                code="TENSOR_ERROR_ALREADY_EXISTS",
                where=f"graph '{self.name}'",
                hint="tensor names are unique within a graph; rename one of them",
            )
        self._tensors[tensor.name] = tensor
        return tensor

    def add_node(self, node: Node) -> Node:
        """Add a node and return it; its tensors must be in the graph.

        Raises:
            GraphError: The name is taken, a tensor is not in the graph, or an output is already
                written by another node or occurs twice.
        """
        if node.name in self._nodes:
            raise GraphError(
                f"duplicate node name '{node.name}'",
                where=f"graph '{self.name}'",
                hint="node names are unique within a graph; rename one of them",
            )
        for tensor in node.inputs + node.outputs:
            if tensor is not None and self._tensors.get(tensor.name) is not tensor:
                raise GraphError(
                    f"tensor '{tensor.name}' is not in graph '{self.name}'",
                    where=node.where,
                    hint="add the tensor to the graph first",
                )
        for tensor in node.outputs:
            if tensor in self._producers:
                raise GraphError(
                    f"output '{tensor.name}' is already written by {self._producers[tensor].where}",
                    where=node.where,
                )
        if len(set(node.outputs)) < len(node.outputs):
            raise GraphError("the node writes one of its outputs twice", where=node.where)
        self._nodes[node.name] = node
        self._link(node)
        # It may come last if nothing reads its outputs yet, not even the node itself.
        if self._order is not None and not any(map(self._consumers.get, node.outputs)):
            self._order.append(node)
        else:
            self._order = None
        return node

    def remove_node(self, node: Node) -> None:
        """Remove a node; its tensors stay."""
        del self._nodes[node.name]
        self._taken.clear()
        self._unlink(node)
        self._order = None

    def remove_tensor(self, tensor: Tensor) -> None:
        """Remove a tensor that no node uses.

        Raises:
            ValueError: A node uses it.
        """
        if tensor in self._producers or self.is_read(tensor):
            raise ValueError(f"tensor {tensor.name} is still in use")
        del self._tensors[tensor.name]
        self._taken.clear()
        self._consumers.pop(tensor, None)

    def set_inputs(self, node: Node, inputs: Sequence[Tensor | None]) -> None:
        """Replace the inputs of a node."""
        self._unlink(node)
        node.inputs = tuple(inputs)
        self._link(node)
        self._order = None

    def set_outputs(self, node: Node, outputs: Sequence[Tensor]) -> None:
        """Replace the outputs of a node."""
        self._unlink(node)
        node.outputs = tuple(outputs)
        self._link(node)
        self._order = None

    def replace_input(self, node: Node, old: Tensor, new: Tensor) -> None:
        """Replace `old` by `new` in the inputs of a node."""
        self.set_inputs(node, [new if t is old else t for t in node.inputs])

    def replace_output(self, node: Node, old: Tensor, new: Tensor) -> None:
        """Replace `old` by `new` in the outputs of a node."""
        self.set_outputs(node, [new if t is old else t for t in node.outputs])

    def replace_uses(self, old: Tensor, new: Tensor) -> None:
        """Replace `old` by `new` in the inputs of all nodes."""
        for node in self.consumers(old):
            self.replace_input(node, old, new)

    def rename(self, tensors: Mapping[Tensor, str], nodes: Mapping[Node, str]) -> None:
        """Rename tensors and nodes, params of the nodes too; two of them may exchange names.

        Args:
            tensors: The new names of tensors of the graph.
            nodes: The new names of its nodes.

        Raises:
            GraphError: Two tensors or two nodes would have one name.
        """
        if not tensors and not nodes:
            return
        for kind, names in (
            ("tensor", [tensors.get(t, t.name) for t in self._tensors.values()]),
            ("node", [nodes.get(n, n.name) for n in self._nodes.values()]),
        ):
            if len(set(names)) < len(names):
                double = next(name for name in names if names.count(name) > 1)
                raise GraphError(f"duplicate {kind} name '{double}'", where=f"graph '{self.name}'")
        for tensor, name in tensors.items():
            tensor.name = name
        for node, name in nodes.items():
            for param in node.params.values():
                if isinstance(param, Tensor) and param.name.startswith(f"{node.name}."):
                    param.name = name + param.name[len(node.name) :]
            node.name = name
        self._tensors = {t.name: t for t in self._tensors.values()}
        self._nodes = {n.name: n for n in self._nodes.values()}
        self._taken.clear()

    def reorder_interface(self, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        """Put the named inputs and outputs first, in this order.

        Raises:
            GraphError: A name is unknown.
        """
        first = {n: self.tensor(n) for n in (*inputs, *outputs)}
        self._tensors = first | self._tensors

    # -- inside ----------------------------------------------------------------------------------

    def _link(self, node: Node) -> None:
        for tensor in node.outputs:
            self._producers[tensor] = node
        for source in node.inputs:
            if source is not None:
                self._consumers.setdefault(source, {})[node] = None

    def _unlink(self, node: Node) -> None:
        for tensor in node.outputs:
            if self._producers.get(tensor) is node:
                del self._producers[tensor]
        for source in node.inputs:
            if source is not None:
                self._consumers.get(source, {}).pop(node, None)

    def _sorted(self) -> tuple[Node, ...]:
        nodes = list(self._nodes.values())
        order = topological_order([n.inputs for n in nodes], [n.outputs for n in nodes])
        if len(order) < len(nodes):
            stuck = [nodes[i].name for i in sorted(set(range(len(nodes))).difference(order))]
            raise GraphError(
                f"the graph has a cycle: cannot order {counted(len(stuck), 'node')}, "
                f"among them {', '.join(stuck[:5])}",
                where=f"graph '{self.name}'",
                hint="a graph must be acyclic; unroll loops before converting",
            )
        return tuple(nodes[i] for i in order)
