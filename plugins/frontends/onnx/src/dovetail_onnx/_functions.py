"""Inlining of the model's own functions, before anything else reads the graph."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator

from onnx import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    helper,
    inliner,
    shape_inference,
)
from onnx.checker import ValidationError

from dovetail.errors import FrontendError, Problem
from dovetail_onnx._source import any_graphs

FunctionId = tuple[str, str, str]
_Size = tuple[int, int]  # nodes and bytes
# A few nested functions can multiply without bound. Exporters' functions make a model several times
# as large, in nodes and in bytes; larger growth takes too long for the file's size.
_FREE_NODES, _FREE_BYTES, _GROWTH = 20_000, 32 << 20, 10
_MOST_LEVELS = 100  # of functions that call others, as in the inliner; each takes a pass


def inline_functions(model: ModelProto) -> ModelProto:
    """Return the model with every call of its own functions replaced by their nodes.

    Raises:
        FrontendError: The functions call each other in a circle, multiply beyond all bounds, or
            cannot be inlined.
    """
    if not model.functions:
        return model
    _check_unique(model)
    _check_expansion(model)
    converts = _differ(model)
    names = {name for node in all_nodes(model.graph.node) for name in ("", *node.output)}
    try:
        if not converts and not any(function.attribute_proto for function in model.functions):
            return inliner.inline_local_functions(model)
        made = ModelProto()
        made.CopyFrom(model)
        for level in _levels(model):
            if converts:
                # functions of other opsets than the model's are converted to its own, by types
                made = shape_inference.infer_shapes(made)
                _declare_initializers(made.graph)
            _add_defaults(made)
            made = _inlined(made, level, converts)
            if converts:
                _rename_repeated(made.graph, names, set(), {})
    except (RuntimeError, ValueError, ValidationError) as error:
        raise FrontendError(f"cannot inline the model's functions: {error}") from error
    return made


def _levels(model: ModelProto) -> Iterator[set[FunctionId]]:
    """Yield the functions by levels, each after those of which functions call its own.

    Raises:
        FrontendError: There are too many levels.
    """
    functions = {_id_of(f): f for f in model.functions}
    depths = dict.fromkeys(functions, 0)
    for caller in reversed(list(_callees_first(functions))):
        for callee in _called(functions[caller], functions):
            depths[callee] = max(depths[callee], depths[caller] + 1)
    levels = max(depths.values()) + 1
    if levels > _MOST_LEVELS:
        raise FrontendError(
            f"functions call each other over {levels} levels; at most {_MOST_LEVELS} are inlined",
            hint="export the model without nested functions",
        )
    for depth in range(levels):
        yield {function for function in functions if depths[function] == depth}


def _declare_initializers(graph: GraphProto) -> None:
    """Declare the types of initializers, which the converter takes only from declarations."""
    known = {info.name for info in (*graph.input, *graph.output, *graph.value_info)}
    for tensor in graph.initializer:
        if tensor.name not in known:
            info = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            graph.value_info.append(info)


def _add_defaults(model: ModelProto) -> None:
    """Add default values to the calls of functions in the graph, which the inliner ignores.

    In calls by other functions, they are only known once these are inlined: an attribute that
    refers to one of the caller may have no value.
    """
    defaults = {_id_of(f): f.attribute_proto for f in model.functions if f.attribute_proto}
    for node in all_nodes(model.graph.node):
        named = {attribute.name for attribute in node.attribute}
        values = defaults.get(_target_of(node), ())
        node.attribute.extend(value for value in values if value.name not in named)


def _inlined(model: ModelProto, level: set[FunctionId], converts: bool) -> ModelProto:
    """Inline some functions of a model, which is changed; the result has the others."""
    others = [function for function in model.functions if _id_of(function) not in level]
    chosen = [function for function in model.functions if _id_of(function) in level]
    del model.functions[:]
    model.functions.extend(chosen)
    made = inliner.inline_local_functions(model, convert_version=converts)
    made.functions.extend(others)
    return made


def _rename_repeated(graph: GraphProto, own: set[str], seen: set[str], now: dict[str, str]) -> None:
    """Rename results that repeat a name: the converter names what it adds alike in each call.

    Args:
        graph: Changed. A node reads the last result before it.
        own: The names of the model itself, which stay.
        seen: The names that are taken.
        now: What results are called from here on.
    """
    for node in graph.node:
        node.input[:] = [now.get(name, name) for name in node.input]
        for inner in any_graphs(node):
            _rename_repeated(inner, own, set(seen), dict(now))
        for i, name in enumerate(node.output):
            if name in seen and name not in own:
                count = next(n for n in itertools.count(1) if f"{name}_{n}" not in seen | own)
                now[name] = node.output[i] = f"{name}_{count}"
            seen.add(node.output[i])
    for value in graph.output:
        value.name = now.get(value.name, value.name)


def _differ(model: ModelProto) -> bool:
    """Return whether a function imports another version of a domain than the model."""
    versions = {opset.domain: opset.version for opset in model.opset_import}
    return any(
        versions.get(opset.domain, opset.version) != opset.version
        for function in model.functions
        for opset in function.opset_import
    )


def _check_unique(model: ModelProto) -> None:
    counts = Counter(_id_of(function) for function in model.functions)
    problems = [
        Problem(f"duplicate name, used {count} times", f"function '{domain}:{name}'")
        for (domain, name, _), count in counts.items()
        if count > 1
    ]
    if problems:
        raise FrontendError(
            "the model is not well formed",
            problems=problems,
            hint="names of functions are unique within a domain; export the model again",
        )


def _check_expansion(model: ModelProto) -> None:
    functions = {_id_of(f): f for f in model.functions}
    written = [len(f.node) for f in model.functions]
    limits = (
        _FREE_NODES + _GROWTH * (len(model.graph.node) + sum(written)),
        _FREE_BYTES + _GROWTH * sum(f.ByteSize() for f in model.functions),
    )
    sizes: dict[FunctionId, _Size] = {}
    for function in _callees_first(functions):
        count, nbytes = _size(functions[function].node, sizes)
        defaults = sum(value.ByteSize() for value in functions[function].attribute_proto)
        sizes[function] = count, nbytes + defaults
        _check_size(sizes[function], limits, f"function '{function[0]}:{function[1]}'")
    called = [node for node in all_nodes(model.graph.node) if _target_of(node) in functions]
    _check_size(_size(called, sizes), limits, f"graph '{model.graph.name}'")


def _callees_first(functions: dict[FunctionId, FunctionProto]) -> Iterator[FunctionId]:
    """Yield every function after those that it calls."""
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
    return (key for node in all_nodes(function.node) if (key := _target_of(node)) in functions)


def _size(nodes: Iterable[NodeProto], sizes: dict[FunctionId, _Size]) -> _Size:
    """Return the number of nodes, and of their bytes, after inlining."""
    count = nbytes = 0
    for node in all_nodes(nodes):
        within = sizes.get(_target_of(node))
        made = (1, _own_bytes(node)) if within is None else within
        count, nbytes = count + made[0], nbytes + made[1]
    return count, nbytes


def _own_bytes(node: NodeProto) -> int:
    """Return a node's size without the nodes in its subgraphs, which are counted separately."""
    carried = sum(inner.ByteSize() for graph in any_graphs(node) for inner in graph.node)
    return int(node.ByteSize()) - int(carried)


def _check_size(size: _Size, limits: _Size, what: str) -> None:
    for found, limit, word in zip(size, limits, ("nodes", "bytes"), strict=True):
        if found > limit:
            raise FrontendError(
                f"inlining the model's functions gives {what} more than {limit} {word}",
                hint="export the model without nested functions",
            )


def all_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Yield nodes and those in their subgraphs."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        for graph in any_graphs(node):
            waiting.extend(graph.node)


def _id_of(function: FunctionProto) -> FunctionId:
    return function.domain, function.name, getattr(function, "overload", "")


def _target_of(node: NodeProto) -> FunctionId:
    return node.domain, node.op_type, getattr(node, "overload", "")
