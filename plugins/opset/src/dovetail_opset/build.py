"""Creation of nodes from plain Python values, for frontends and passes.

`add` returns the only output of a node, `add_all` all outputs:

    y = add(graph, "Conv2d", [x, weight, bias], name="conv1", stride=(2, 2), pad_amount=pads)
    a, b = add_all(graph, "Split", [y], name="halves", axis=3, split_index=[8])
    z = add(graph, "Reshape", [b], name="flat", spec=Spec(b.dtype, (1, 80)))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dovetail.errors import OpError, Problem
from dovetail.ir import Array, DType, Encoding, Graph, Node, Param, Shape, Spec, Tensor
from dovetail.ops import OpPackage, OpSchema, Port, input_specs
from dovetail_opset._package import PACKAGE

Outputs = str | Tensor | Sequence[str | Tensor] | None


def add(
    graph: Graph,
    op_type: str,
    inputs: Sequence[Tensor | None],
    *,
    name: str,
    outputs: Outputs = None,
    spec: Spec | None = None,
    sources: Iterable[str] | None = None,
    package: OpPackage | None = None,
    **params: Any,
) -> Tensor:
    """Add a node with one output and return that output.

    Args:
        graph: The graph to which the node and its output are added.
        op_type: Name of the op.
        inputs: Tensors of the graph, None for an omitted optional one.
        name: The node's name; a similar fresh one if a node or tensor has it already.
        outputs: The output's name (by default the node's) or a tensor; a tensor that is not in the
            graph yet is added.
        spec: Declared spec of the output, for ops that read their target there.
        sources: Names of the nodes of the user's model that the node represents.
        package: The op's package, by default the standard one.
        params: Values by name: numbers, enum members, array-likes; None omits one.

    Raises:
        OpError: The node does not match its op.
        LookupError, TypeError: The op or a param does not exist.
    """
    ports = _schema(package or PACKAGE, op_type, name).outputs
    if len(ports) != 1 or ports[0].variadic:
        raise TypeError(f"node {name}: {op_type} may have several outputs; use add_all")
    made = add_all(
        graph,
        op_type,
        inputs,
        name=name,
        outputs=outputs,
        specs=[spec],
        sources=sources,
        package=package,
        **params,
    )
    return made[0]


def add_all(
    graph: Graph,
    op_type: str,
    inputs: Sequence[Tensor | None],
    *,
    name: str,
    outputs: Outputs = None,
    specs: Sequence[Spec | None] = (),
    sources: Iterable[str] | None = None,
    package: OpPackage | None = None,
    **params: Any,
) -> tuple[Tensor, ...]:
    """Add a node and return its outputs; see `add`.

    Raises:
        OpError: The node does not match its op.
    """
    schema = _schema(package or PACKAGE, op_type, name)
    origin = (name,) if sources is None else sources
    node = Node(graph.fresh_name(name), schema.package, op_type, inputs, (), sources=origin)
    given = [outputs] if isinstance(outputs, str | Tensor) else outputs
    declared = _declared(given, specs)
    _set_params(schema, node, params, len(given or schema.outputs))
    found = _infer(schema, node, declared)
    node.outputs = _output_tensors(graph, node, given, found, schema.outputs)
    graph.add_node(node)
    return node.outputs


def replace_op(
    graph: Graph,
    node: Node,
    op_type: str,
    inputs: Sequence[Tensor | None] | None = None,
    params: Mapping[str, Param] | None = None,
) -> Node:
    """Put a node of a standard op in place of a node, and return it.

    Args:
        graph: The graph.
        node: Removed; the new node has its name, outputs and sources.
        op_type: The op. Nothing is checked: the node must match it.
        inputs: By default those of the node.
        params: By default none.
    """
    graph.remove_node(node)
    given = node.inputs if inputs is None else inputs
    made = Node(node.name, PACKAGE.name, op_type, given, node.outputs, params, sources=node.sources)
    return graph.add_node(made)


def static(
    graph: Graph,
    name: str,
    values: Array,
    dtype: DType | None = None,
    *,
    encoding: Encoding | None = None,
    source: str | None = None,
    source_perm: Shape | None = None,
) -> Tensor:
    """Add a STATIC tensor, with a fresh name like `name` if that is taken, and return it."""
    made = Tensor.static(
        graph.fresh_name(name),
        values,
        dtype,
        encoding=encoding,
        source=source or name,
        source_perm=source_perm,
    )
    return graph.add_tensor(made)


def _schema(package: OpPackage, op_type: str, name: str) -> OpSchema:
    try:
        return package.schemas[op_type]
    except KeyError as error:
        # only a frontend or a pass names ops here, so this is its bug and not the user's
        text = f"node {name}: package {package.name} has no op {op_type}"
        raise LookupError(text) from error


def _declared(
    given: Sequence[str | Tensor] | None, specs: Sequence[Spec | None]
) -> list[Spec | None]:
    if given is None:
        return list(specs) if any(s is not None for s in specs) else []
    filled = [*specs, *[None] * (len(given) - len(specs))]
    return [t.spec if isinstance(t, Tensor) else s for t, s in zip(given, filled, strict=True)]


def _set_params(schema: OpSchema, node: Node, values: dict[str, Any], outs: int) -> None:
    faults = schema.arity_faults(len(node.inputs), outs)
    for key, value in values.items():
        if value is None:
            continue
        if key not in schema.params:
            raise TypeError(f"{node.where}: {schema.full_name} has no param '{key}'")
        node.params[key] = schema.params[key].param_of(value, node.name)
    faults += schema.param_faults(node.params)
    if faults:
        problems = [Problem(text) for text in faults]
        raise OpError("the node does not match its op", where=node.where, problems=problems)


def _infer(schema: OpSchema, node: Node, declared: Sequence[Spec | None]) -> tuple[Spec, ...]:
    ins = input_specs(node)
    try:
        found = schema.infer(schema.bind(node.params, ins), ins, declared)
    except OpError as error:
        error.where = error.where or node.where
        raise
    for want, have in zip(declared, found, strict=False):
        if want is not None and (want.dtype, want.shape) != (have.dtype, have.shape):
            raise OpError(
                f"the output is declared as {want.dtype.name} {want.shape}, but {schema.full_name} "
                f"returns {have.dtype.name} {have.shape}",
                where=node.where,
            )
    return found


def _output_tensors(
    graph: Graph,
    node: Node,
    given: Sequence[str | Tensor] | None,
    found: Sequence[Spec],
    ports: Sequence[Port],
) -> tuple[Tensor, ...]:
    if given is None:
        stems = [node.name] if len(found) == 1 else [f"{node.name}.{i}" for i in range(len(found))]
        given = [graph.fresh_name(stem) for stem in stems]
    left_out = ports[len(given) : len(found)]
    if len(given) + len(left_out) != len(found) or not all(p.optional for p in left_out):
        raise OpError(
            f"the op has {len(found)} outputs, but {len(given)} are named", where=node.where
        )
    made = []
    for item, spec in zip(given, found, strict=False):  # trailing ones left out
        if isinstance(item, str):
            item = Tensor(item, spec.dtype, spec.shape, encoding=spec.encoding)
        if graph.tensors.get(item.name) is not item:
            graph.add_tensor(item)
        made.append(item)
    return tuple(made)
