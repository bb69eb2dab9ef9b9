"""The structural check of graphs, which reports all faults at once.

`dovetail.ops.check` checks nodes against the schemas of their ops.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dovetail.errors import GraphError, Problem, counted
from dovetail.ir.dtypes import DType
from dovetail.ir.encodings import Shape
from dovetail.ir.graph import Graph, Node
from dovetail.ir.tensor import DataFormat, MemoryType, Tensor, TensorKind

# QNN stores dimensions in 32 bits; larger ones are damage.
MAX_AXIS_SIZE = 2**32 - 1

# As names, which are quicker; see `dovetail.ir.tensor`.
_UNDEFINED, _STRING = DType.UNDEFINED, DType.STRING
_NULL, _RAW, _DENSE = TensorKind.NULL, MemoryType.RAW, DataFormat.DENSE


def find_faults(graph: Graph, *, is_part: bool = False) -> list[Problem]:
    """Return every structural fault of a graph; none if it is well formed.

    Args:
        graph: The graph.
        is_part: Whether nodes may read and outputs may be tensors that no node of it writes.
    """
    found: list[Problem] = []
    for name, tensor in graph.tensors.items():
        found += _tensor_faults(graph, name, tensor, is_part)
    found += _grid_faults(graph)
    nodes: Iterable[Node]
    try:
        nodes = graph.nodes
    except GraphError as error:
        found.append(error.as_problem())
        nodes = _linked_nodes(graph)
    for node in nodes:
        found += _node_faults(graph, node)
    return found


def check(graph: Graph, *, is_part: bool = False) -> None:
    """Raise if a graph is not well formed; see `find_faults`.

    Raises:
        GraphError: The graph has faults; all are listed.
    """
    raise_faults(graph, find_faults(graph, is_part=is_part))


def raise_faults(graph: Graph, faults: list[Problem]) -> None:
    """Raise one error that carries all faults, if there are any.

    Raises:
        GraphError: There are faults.
    """
    if faults:
        count = counted(len(faults), "fault")
        raise GraphError(f"{count} found", where=f"graph '{graph.name}'", problems=faults)


def _linked_nodes(graph: Graph) -> Iterable[Node]:
    """Return the nodes that read each tensor, for a graph that may have a cycle."""
    found: dict[Node, None] = {}
    for tensor in graph.tensors.values():
        producer = graph.producer(tensor)
        found |= dict.fromkeys(graph.consumers(tensor))
        found |= {} if producer is None else {producer: None}
    return found


def _location(tensor: Tensor) -> str:
    return f"tensor '{tensor.name}'"


def _tensor_faults(graph: Graph, name: str, tensor: Tensor, is_part: bool) -> list[Problem]:
    texts = value_faults(tensor) + _link_texts(graph, tensor, is_part)
    if name != tensor.name:
        texts.append(f"has the key '{name}' in the graph; a tensor cannot be renamed in place")
    return [Problem(text, _location(tensor)) for text in texts]


def _grid_faults(graph: Graph) -> list[Problem]:
    return [
        Problem(text, f"grid of '{name}'")
        for name, spec in graph.source_encodings.items()
        if spec.encoding is not None
        for text in spec.encoding.faults(spec.shape, spec.dtype)
    ]


def _link_texts(graph: Graph, tensor: Tensor, is_part: bool) -> list[str]:
    """Return the faults of what writes and reads a tensor."""
    producer, kind = graph.producer(tensor), tensor.kind
    if producer is not None:
        if not graph.has_node(producer):
            return [f"is written by {producer.where}, which is not in the graph"]
        if kind.is_static or kind is _NULL:
            return [f"is {kind.name}, but {producer.where} writes it"]
        if kind.is_input and not kind.is_output:
            return [f"is a graph input, but {producer.where} writes it"]
    elif is_part:
        return []
    elif kind.is_output and not kind.is_input:
        return ["is a graph output, but no node writes it"]
    elif kind.is_internal and (readers := graph.consumers(tensor)):
        return [f"is read by {readers[0].where}, but no node writes it"]
    return []


def value_faults(tensor: Tensor) -> list[str]:
    """Return the faults of a tensor by itself: its shape, type, encoding, data and storage."""
    found: list[str] = []
    shape, dtype, kind, data = tensor.shape, tensor.dtype, tensor.kind, tensor.data
    if not tensor.name or "\0" in tensor.name:
        found.append("has no valid name")
    if not is_possible(shape):
        return [*found, f"has the impossible shape {shape}"]
    if dtype is _UNDEFINED and kind is not _NULL:
        found.append("has no data type")
    if tensor.encoding is not None:
        found += tensor.encoding.faults(shape, dtype)
    if data is None:
        if kind.is_static:
            found.append(missing_data(kind))
    else:
        if not kind.is_static:
            found.append(f"is {kind.name}, but has data")
        is_sized = dtype is not _STRING and tensor.data_format is _DENSE
        if is_sized and data.nbytes != (wanted := dtype.nbytes(shape)):
            found.append(
                f"has {data.nbytes} bytes of data, but {dtype.name} {shape} takes {wanted}"
            )
    if tensor.dynamic or tensor.memory_type is not _RAW:
        found += _storage_faults(tensor)
    return found


def is_possible(shape: Shape) -> bool:
    """Return whether the sizes of a shape fit 32 bits, as QNN stores them."""
    for size in shape:  # noqa: SIM110  `all` takes three times as long, for each tensor
        if not 0 <= size <= MAX_AXIS_SIZE:
            return False
    return True


def missing_data(kind: TensorKind) -> str:
    """Return the fault of a static tensor without data."""
    if kind is TensorKind.UPDATEABLE_STATIC:
        return f"is {kind.name} but has no data; it needs values until the first update"
    return f"is {kind.name} but has no data"


def _storage_faults(tensor: Tensor) -> Iterator[str]:
    kind = tensor.kind
    if tensor.memory_type is not MemoryType.RAW and not (kind.is_input or kind.is_output):
        yield f"is {kind.name}, but its memory type is {tensor.memory_type.name}"
    if not tensor.dynamic:
        return
    if len(tensor.dynamic) != len(tensor.shape):
        yield f"has {len(tensor.dynamic)} marks of dynamic axes for the shape {tensor.shape}"
    if kind.is_static:
        yield f"is {kind.name}, but has dynamic axes"
    if any(d and not size for d, size in zip(tensor.dynamic, tensor.shape, strict=False)):
        yield f"has a dynamic axis whose maximum is 0 in the shape {tensor.shape}"


def _node_faults(graph: Graph, node: Node) -> list[Problem]:
    texts = [] if node.name else ["has no name"]
    if graph.has_node(node) and not graph.has_name(node):
        texts.append("has another key in the graph; a node cannot be renamed in place")
    if not node.outputs:
        texts.append("has no outputs")
    texts += _link_faults(graph, node)
    for name, param in node.params.items():
        # scalars are checked against the op's schema
        if isinstance(param, Tensor) and (faults := _param_faults(param)):
            texts += [f"param '{name}' {text}" for text in faults]
    return [Problem(text, node.where) for text in texts] if texts else []


def _param_faults(param: Tensor) -> list[str]:
    found = value_faults(param)
    if param.data is None and not param.kind.is_static:
        found.append("has no data")
    if param.data_format is not _DENSE:
        found.append(f"is {param.data_format.name}, not DENSE")
    return found


def _link_faults(graph: Graph, node: Node) -> list[str]:
    # A pass may create these states with `set_inputs` and `set_outputs`, but not leave them.
    known, outputs, found = graph.tensors, node.outputs, []
    for each in node.inputs + outputs:
        if each is not None and known.get(each.name) is not each:
            found.append(f"uses tensor '{each.name}', which is not in the graph")
    for tensor in outputs:
        producer = graph.producer(tensor)
        if producer is not node:
            other = "nothing" if producer is None else producer.where
            found.append(f"writes tensor '{tensor.name}', whose producer is {other}")
        if outputs.count(tensor) > 1:
            found.append(f"writes tensor '{tensor.name}' twice")
    return list(dict.fromkeys(found)) if found else found
