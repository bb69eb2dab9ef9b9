"""A model's own functions are inlined before anything else looks at the graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnx import FunctionProto, ModelProto, NodeProto, inliner

from dovetail.errors import FrontendError

FunctionId = tuple[str, str, str]
# A few nested functions can multiply without bound; no honest model comes near.
MAX_NODES = 2_000_000


def inline_functions(model: ModelProto) -> ModelProto:
    """Gives the model with every call of its own functions replaced by their nodes.

    Raises:
        FrontendError: The functions call each other in a circle, multiply beyond all bounds, or
            cannot be inlined.
    """
    if not model.functions:
        return model
    _check_expansion(model)
    try:
        return inliner.inline_local_functions(model)
    except (RuntimeError, ValueError) as error:
        raise FrontendError(f"its local functions cannot be inlined: {error}") from error


def _check_expansion(model: ModelProto) -> None:
    functions = {_id_of(f): f for f in model.functions}
    sizes: dict[FunctionId, int] = {}
    for function in _callees_first(functions):
        sizes[function] = _size(functions[function].node, sizes)
        _check_size(sizes[function], f"function '{function[0]}:{function[1]}'")
    _check_size(_size(model.graph.node, sizes), f"graph '{model.graph.name}'")


def _callees_first(functions: dict[FunctionId, FunctionProto]) -> Iterator[FunctionId]:
    """Gives every function after those that it calls."""
    done: set[FunctionId] = set()
    for root in functions:
        path: dict[FunctionId, Iterator[FunctionId]] = {}
        if root not in done:
            path[root] = _called(functions[root], functions)
        while path:
            current = next(reversed(path))
            callee = next((c for c in path[current] if c not in done), None)
            if callee is None:
                done.add(current)
                del path[current]
                yield current
            elif callee in path:
                raise FrontendError(
                    f"the function '{callee[0]}:{callee[1]}' calls itself, directly or through "
                    "others",
                    hint="ONNX functions must not be recursive; export the model again",
                )
            else:
                path[callee] = _called(functions[callee], functions)


def _called(
    function: FunctionProto, functions: dict[FunctionId, FunctionProto]
) -> Iterator[FunctionId]:
    return (key for node in _all_nodes(function.node) if (key := _target_of(node)) in functions)


def _size(nodes: Iterable[NodeProto], sizes: dict[FunctionId, int]) -> int:
    return sum(sizes.get(_target_of(node), 1) for node in _all_nodes(nodes))


def _check_size(size: int, what: str) -> None:
    if size > MAX_NODES:
        raise FrontendError(
            f"inlining the model's functions gives {what} more than {MAX_NODES} nodes",
            hint="export the model without nested functions",
        )


def _all_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Gives nodes and those in their subgraphs."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                waiting.extend(graph.node)


def _id_of(function: FunctionProto) -> FunctionId:
    return function.domain, function.name, getattr(function, "overload", "")


def _target_of(node: NodeProto) -> FunctionId:
    return node.domain, node.op_type, getattr(node, "overload", "")
