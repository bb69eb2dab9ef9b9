"""Types that a processor lacks, in half as many bits."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from dovetail.errors import OpError
from dovetail.ir import DType, Graph, Node, Spec, Tensor, TensorKind, add_like
from dovetail_opset._package import is_op, schema_of
from dovetail_opset.build import add
from dovetail_opset.passes._rewrite import bypass, first_input, is_constant
from dovetail_opset.passes.narrow_integers import drop_limit, narrow

NARROWER = {
    DType.INT_64: DType.INT_32,
    DType.UINT_64: DType.UINT_32,
    DType.FLOAT_64: DType.FLOAT_32,
}


@dataclass(frozen=True, slots=True)
class NarrowTypes:
    """Compute types of 64 bits in 32 bits, whatever the values are.

    Results differ from those of before where values do not fit: integers wrap, constants become the
    largest number of the type. Nodes whose op needs a wide type keep it.

    Attributes:
        types: The wide types, keys of `NARROWER`.
        interfaces: Names of inputs and outputs of the graph that become narrow too. Others keep
            their types: results are cast to those, what needs the inputs stays wide.
        cast_inputs: Whether nodes read inputs that keep their types by a Cast, too.
    """

    types: Collection[DType] = tuple(NARROWER)
    interfaces: Collection[str] = ()
    cast_inputs: bool = False
    name: str = "narrow-types"
    phase: str = "late"
    after: str | None = "narrow-integers"
    on_request: bool = True

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything."""
        types = {wide: NARROWER[wide] for wide in self.types}
        kept = [y for y in graph.outputs if y.dtype in types and y.name not in self.interfaces]
        casts = [_cast_last(graph, y, types) for y in kept]
        given = [x for x in graph.inputs if x.dtype in types and x.name not in self.interfaces]
        firsts = [_cast_first(graph, x, types) for x in given if self.cast_inputs]
        tensors = {
            tensor
            for tensor in graph.tensors.values()
            if tensor.dtype in types and (self._may_change(tensor) or is_constant(tensor))
        }
        nodes = narrow(graph, types, tensors, lambda node: _takes(node, types))
        for node in nodes:
            drop_limit(graph, node, {})  # of indices, to what they are now
        for cast in filter(None, casts):
            if first_input(cast).dtype in types:  # it has stayed wide
                bypass(graph, cast)
        for cast in filter(None, firsts):
            if cast.outputs[0].dtype in types:
                bypass(graph, cast)
        return bool(nodes) or any(tensor.dtype not in types for tensor in tensors)

    def _may_change(self, tensor: Tensor) -> bool:
        is_end = tensor.name in self.interfaces and not tensor.kind.is_static
        return tensor.kind is TensorKind.NATIVE or is_end


def _cast_last(graph: Graph, y: Tensor, types: Mapping[DType, DType]) -> Node | None:
    """Let a cast from the narrow type write an output, if another node does; return the cast."""
    node = graph.producer(y)
    if node is None or y.kind is not TensorKind.APP_READ:
        return None
    if is_op(node, "Cast") and first_input(node).dtype in (y.dtype, types[y.dtype]):
        return None
    inner = add_like(graph, y, f"{y.name}.inner")
    graph.replace_output(node, y, inner)
    graph.replace_uses(y, inner)
    add(graph, "Cast", [inner], name=f"{node.name}.cast", outputs=y, sources=node.sources)
    return graph.producer(y)


def _cast_first(graph: Graph, x: Tensor, types: Mapping[DType, DType]) -> Node | None:
    """Let all nodes read an input by a cast, which is returned, unless they do so already."""
    narrow = types[x.dtype]
    if all(is_op(n, "Cast") and n.outputs[0].dtype is narrow for n in graph.consumers(x)):
        return None
    inner = add_like(graph, x, f"{x.name}.inner")
    graph.replace_uses(x, inner)
    add(graph, "Cast", [x], name=f"{x.name}.cast", outputs=inner, sources=())
    return graph.producer(inner)


def _takes(node: Node, types: dict[DType, DType]) -> bool:
    """Return whether an op allows narrower types."""
    schema = schema_of(node)
    if schema is None:
        return False

    def narrowed(tensor: Tensor | None) -> Spec | None:
        spec = None if tensor is None else tensor.spec
        return spec and replace(spec, dtype=types.get(spec.dtype, spec.dtype))

    ins, outs = [narrowed(t) for t in node.inputs], [narrowed(t) for t in node.outputs]
    try:
        found = schema.infer(schema.bind(node.params, ins), ins, outs)
    except OpError:
        return False
    pairs = zip(found, outs, strict=False)
    return all(want is not None and have.dtype is want.dtype for have, want in pairs)
