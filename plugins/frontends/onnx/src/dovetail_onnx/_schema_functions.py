"""Operators that ONNX defines by other operators: expanded if they have no importer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx.defs
from onnx import FunctionProto, ModelProto, NodeProto, TypeProto, helper, inliner, shape_inference
from onnx.checker import ValidationError

from dovetail.errors import FrontendError
from dovetail_onnx._checker import breaks_inference
from dovetail_onnx._functions import all_nodes
from dovetail_onnx._registry import Importers
from dovetail_onnx._tables import Tables

# onnx's type stubs lack the definitions.
OpSchema = Any
# Of the functions made here; no model imports it.
_DOMAIN = "dovetail.written_out"
# Maximum number of nodes that definitions may add: more takes too long for the file's size.
_FREE_NODES, _NODES_OF_NODE = 20_000, 10
# A definition uses an operator that has one too, and so on; no chain in ONNX is half as long.
_MOST_ROUNDS = 8


def write_out(model: ModelProto, tables: Tables) -> ModelProto:
    """Return a model whose operators without an importer are replaced by their definitions.

    Nodes within subgraphs stay unchanged, and so do operators without a definition for the
    model's operator set.

    Args:
        model: Without local functions.
        tables: The tables of importers.

    Raises:
        FrontendError: They cannot be replaced, or become too many for the model's size.
    """
    most = _FREE_NODES + _NODES_OF_NODE * len(model.graph.node)
    for _ in range(_MOST_ROUNDS):
        written = _write_out_once(model, tables, most)
        if written is None:
            break
        model = written
    return model


def _write_out_once(model: ModelProto, tables: Tables, most: int) -> ModelProto | None:
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    operators = dict.fromkeys((node.domain, node.op_type) for node in model.graph.node)
    schemas = {key: _schema(*key, opsets, tables) for key in operators}
    if all(schema is None for schema in schemas.values()):
        return None
    each = ((i, schemas[node.domain, node.op_type]) for i, node in enumerate(model.graph.node))
    wanted = {i: schema for i, schema in each if schema is not None}
    types = _types(model) if any(s.has_context_dependent_function for s in wanted.values()) else {}
    made, count = ModelProto(), len(model.graph.node)
    made.CopyFrom(model)
    for i, schema in wanted.items():
        call = made.graph.node[i]
        function = _definition(schema, call, made, types)
        if function is not None:
            count += len(function.node)
            if count > most:
                raise FrontendError(
                    f"the definitions of the operators have more than {most} nodes together",
                    hint="convert parts of it, cut with --out-name",
                )
            _call(made, call, function, schema, i)
    if not made.functions:
        return None
    made.opset_import.append(helper.make_opsetid(_DOMAIN, 1))
    try:
        return inliner.inline_local_functions(made)
    except (RuntimeError, ValueError, ValidationError) as error:
        raise FrontendError(
            f"cannot replace operators by their definitions: {error}",
            hint="the model is damaged, or wrong where it uses them; export it again",
        ) from error


def _schema(domain: str, op_type: str, opsets: dict[str, int], tables: Tables) -> OpSchema | None:
    """Return the schema of an operator that has a definition, but no importer."""
    if domain not in opsets:
        return None
    try:
        schema: OpSchema = onnx.defs.get_schema(op_type, opsets[domain], domain)
    except onnx.defs.SchemaError:
        return None
    if not schema.has_function and not schema.has_context_dependent_function:
        return None
    table = tables.of(domain, op_type)
    known = isinstance(table, Importers) and table.find(op_type, schema.since_version)
    return None if known else schema


def _types(model: ModelProto) -> dict[str, TypeProto]:
    """Return the inferred types and shapes of all tensors; the values of weights are not used."""
    light = ModelProto()
    light.CopyFrom(model)
    del light.graph.initializer[:]
    given = {info.name for info in light.graph.input}
    light.graph.input.extend(
        helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        for tensor in model.graph.initializer
        if tensor.name not in given
    )
    try:
        can_infer = not any(map(breaks_inference, all_nodes(light.graph.node)))
        graph = shape_inference.infer_shapes(light).graph if can_infer else light.graph
    except (shape_inference.InferenceError, ValidationError, RuntimeError, ValueError):
        graph = light.graph  # the reader finds the fault, and reports it more precisely
    return {info.name: info.type for info in (*graph.input, *graph.value_info, *graph.output)}


def _definition(
    schema: OpSchema, node: NodeProto, model: ModelProto, types: dict[str, TypeProto]
) -> FunctionProto | None:
    """Return the first definition of a node's operator that suits the model's operator sets."""
    for function in _definitions(schema, node, types):
        if function.node and _agree_on_opsets(function, model):
            return function
    return None


def _definitions(
    schema: OpSchema, node: NodeProto, types: dict[str, TypeProto]
) -> Iterator[FunctionProto]:
    """Yield the definitions of a node's operator, newest first; then those built for the node."""
    for version in sorted(schema.function_opset_versions, reverse=True):
        yield _parsed(schema.get_function_with_opset_version(version))
    known = [types.get(name, TypeProto()) for name in node.input]
    pairs = zip(node.input, known, strict=True)
    if any(name and kind.WhichOneof("value") is None for name, kind in pairs):
        return  # ONNX's code relies on the types of all inputs
    ins = [kind.SerializeToString() for kind in known]
    for version in sorted(schema.context_dependent_function_opset_versions, reverse=True):
        try:
            text = schema.get_context_dependent_function_with_opset_version(
                version, node.SerializeToString(), ins
            )
        except (RuntimeError, ValueError, LookupError):
            continue  # the node is invalid, which the survey reports more precisely
        yield _parsed(text)


def _parsed(text: bytes) -> FunctionProto:
    function = FunctionProto()
    function.ParseFromString(text)
    return function


def _agree_on_opsets(function: FunctionProto, model: ModelProto) -> bool:
    """Rewrite a function for the model's operator sets, if its operators mean the same there.

    Sets that the model does not import are added to it.
    """
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    meant = {entry.domain: entry.version for entry in function.opset_import}
    for node in function.node:
        domain = node.domain
        # a definition without an operator set fits any set
        version = meant.get(domain, opsets.get(domain))
        if version is None:
            return False
        if domain in opsets and not _same(node.op_type, domain, version, opsets[domain]):
            return False
    for domain in meant.keys() - opsets.keys():
        model.opset_import.append(helper.make_opsetid(domain, meant[domain]))
    del function.opset_import[:]
    function.opset_import.extend(model.opset_import)
    return True


def _same(op_type: str, domain: str, meant: int, imported: int) -> bool:
    """Return whether an operator has the same inputs and attributes in two versions."""
    try:
        schemas = [onnx.defs.get_schema(op_type, v, domain) for v in (meant, imported)]
    except onnx.defs.SchemaError:
        return False
    first, second = (([i.name for i in s.inputs], sorted(s.attributes)) for s in schemas)
    return first == second


def _call(
    model: ModelProto,
    call: NodeProto,
    function: FunctionProto,
    schema: OpSchema,
    place: int,
) -> None:
    """Make a node the call of its own function."""
    stem = call.name or f"{call.op_type}_{place}"
    given = {attribute.name for attribute in call.attribute}
    for name, attribute in schema.attributes.items():
        if name not in given and attribute.default_value.name:
            call.attribute.append(attribute.default_value)
    for i, node in enumerate(function.node):
        node.name = f"{stem}.{node.name or node.op_type}_{i}"
    function.domain, function.name = _DOMAIN, f"{call.op_type}_{place}"
    model.functions.append(function)
    call.domain, call.op_type = function.domain, function.name
