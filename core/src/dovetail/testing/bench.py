"""The bench: a backend under test, and a sample graph for checks that can use any graph."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dovetail import runtime
from dovetail.errors import UnsupportedOpError
from dovetail.ir import Array, Blob, DType, Graph, Tensor, pack
from dovetail.ops import OpPackage, OpRegistry, OpSchema, to_real
from dovetail.plugins.ops import installed_ops
from dovetail.runtime import contract
from dovetail.testing import ops
from dovetail.testing.binding import BoundCase, bind, schema_of
from dovetail.testing.case import Encoded, OpCase
from dovetail.testing.comparison import difference
from dovetail.testing.outcome import Failure, Unsupported, demand


class Bench:
    """A backend under test.

    Args:
        backend: Name of an installed backend, or a class that is not installed.
        options: The backend's options.
        cases: Op cases; the checks run one that the backend supports, else the kit's own op.
        packages: Op packages that are not installed.
    """

    def __init__(
        self,
        backend: str | type[contract.Backend],
        options: Mapping[str, Any] | None = None,
        cases: Sequence[OpCase] = (),
        packages: Sequence[OpPackage] = (),
    ) -> None:
        self._backend = backend
        self._options = options
        self._packages = packages
        self.cases = tuple(cases)

    @property
    def name(self) -> str:
        """Name of the backend, or of the class."""
        return self._backend if isinstance(self._backend, str) else self._backend.name

    def ops(self) -> OpRegistry:
        """Return a new registry of the installed packages and those of the bench."""
        registry = installed_ops()
        for package in self._packages:
            registry.add(package)
        return registry

    def create(self, options: Mapping[str, Any] | None = None) -> runtime.Backend:
        """Create a handle of the backend; register the kit's own ops if the backend supports them.

        Args:
            options: Options that replace the bench's.
        """
        given = self._options if options is None else options
        made = runtime.Backend.create(self._backend, given, self.ops())
        if made.capabilities.op_packages:
            made.register_op_package(ops.PACKAGE)
        return made

    @functools.cached_property
    def sample(self) -> BoundCase:
        """A case that the backend supports.

        Raises:
            Failure: The backend supports none of the available cases.
        """
        found = self._find(lambda _: True)
        if found is None:
            raise Failure("the backend supports none of the available cases: add some with --cases")
        return found

    def narrowed(self, suits: Callable[[BoundCase], bool]) -> Bench:
        """Return a bench of the same backend whose sample suits.

        Raises:
            Unsupported: The backend supports no such case among the available ones.
        """
        found = self._find(suits)
        if found is None:
            raise Unsupported("the backend supports none of the available cases that suit")
        made = Bench(self._backend, self._options, self.cases, self._packages)
        made.sample = found
        return made

    def _find(self, suits: Callable[[BoundCase], bool]) -> BoundCase | None:
        with self.create() as backend:
            for case in self.candidates(backend.capabilities):
                bound = bind(case)
                if suits(bound) and _serves(bound, backend):
                    return bound
        return None

    def candidates(self, capabilities: contract.Capabilities) -> tuple[OpCase, ...]:
        """Yield the cases that can be a sample, then the kit's own if the backend may support them.

        Cases with more static inputs come first: a backend packs weights, shares them between
        graphs and must not confuse them.
        """
        own = ops.HALVE if capabilities.op_packages else ()
        return (*sorted(self.cases, key=lambda case: -len(case.static)), *own)

    def composed(self, context: runtime.Context, name: str = "case") -> runtime.Graph:
        """Compose the sample as a graph of a context."""
        return compose(context, self.sample.graph(self.schema(context), name))

    def finalized(self, context: runtime.Context, name: str = "case") -> runtime.Graph:
        """Compose and finalize the sample."""
        graph = self.composed(context, name)
        graph.finalize()
        return graph

    def schema(self, context: runtime.Context) -> OpSchema:
        """Return the schema of the sample's op."""
        return schema_of(self.sample.case, context.backend.ops)

    def feeds(self, shift: int = 0) -> dict[str, Array]:
        """Return inputs for the sample's graph.

        Args:
            shift: Rotates the elements of every input by this many positions, for other data in the
                same range. Inputs whose elements are indices or sizes remain valid.
        """
        fed = self.sample.feeds()
        return {name: np.roll(x, shift).reshape(x.shape) for name, x in fed.items()}

    def demand_same(
        self, found: Mapping[str, Array], wanted: Mapping[str, Array], message: str
    ) -> None:
        """Raise a Failure unless two runs of the sample returned the same, within its tolerance."""
        for i, expected in enumerate(self.sample.expected):
            other = Encoded(wanted[f"y{i}"], expected.dtype, expected.encoding)
            text = difference(found[f"y{i}"], other, self.sample.case)
            demand(not text, f"{message}: out[{i}]: {text}")

    def outputs(self) -> dict[str, Array]:
        """Return output buffers for the sample's graph, filled with arbitrary bytes."""
        return {
            f"y{i}": rubbish(a.values.shape, a.values.dtype)
            for i, a in enumerate(self.sample.expected)
        }


def _serves(bound: BoundCase, backend: runtime.Backend) -> bool:
    """Return whether a case can be a sample: it runs, and has inputs and outputs."""
    try:
        schema = schema_of(bound.case, backend.ops)
    except UnsupportedOpError:
        return False
    fed = bound.feeds()
    whole = all(a.size for a in (*fed.values(), *(y.values for y in bound.expected)))
    return bool(fed) and whole and schema.op.is_pure and backend.validate_op(bound.node(schema)).ok


def rubbish(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an array whose bytes are all 0xA5, which no run may leave in an output."""
    return np.frombuffer(
        bytearray(b"\xa5" * (int(np.prod(shape)) * dtype.itemsize)), dtype
    ).reshape(shape)


def stored_blob(stored: Array, tensor: Tensor) -> Blob:
    """Return stored values as the data of a tensor."""
    real = to_real(stored, tensor.spec) if tensor.dtype is DType.BFLOAT_16 else stored
    return pack(real, tensor.dtype)


def create_tensors(
    handle: runtime.Graph, graph: Graph, shared: Mapping[str, runtime.Tensor] | None = None
) -> dict[Tensor, runtime.Tensor]:
    """Create the tensors of a graph in a handle's graph and return their handles.

    Args:
        handle: The handle.
        graph: The graph.
        shared: Context tensors by the names of tensors of the graph, which they replace.
    """
    found = shared or {}
    return {
        t: found[t.name]
        if t.name in found
        else handle.create_tensor(
            t.name, t.dtype, t.shape, t.kind, t.encoding, t.data, memory_type=t.memory_type
        )
        for t in graph.tensors.values()
    }


def compose(
    context: runtime.Context, graph: Graph, shared: Mapping[str, runtime.Tensor] | None = None
) -> runtime.Graph:
    """Compose a graph with the calls of the handle API.

    Args:
        context: The context.
        graph: The graph.
        shared: As for `create_tensors`.
    """
    handle = context.create_graph(graph.name)
    add_nodes(handle, graph, create_tensors(handle, graph, shared))
    return handle


def add_nodes(handle: runtime.Graph, graph: Graph, made: Mapping[Tensor, runtime.Tensor]) -> None:
    """Add the nodes of a graph to a handle's graph, given the handles of its tensors."""
    for node in graph.nodes:
        handle.add_node(
            node.name,
            node.package,
            node.op_type,
            [None if t is None else made[t] for t in node.inputs],
            [made[t] for t in node.outputs],
            node.params,
        )
