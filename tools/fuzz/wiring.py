"""Mutations of a model's structure: nodes, names, subgraphs, functions."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

from fuzz import pick

Mutation = Callable[[ModelProto, Random], None]


def swap_inputs(model: ModelProto, random: Random) -> None:
    """Swap two inputs of nodes."""
    ends = [(node, i) for node in pick.nodes(model) for i in range(len(node.input))]
    if len(ends) > 1:
        (one, i), (two, j) = random.sample(ends, 2)
        one.input[i], two.input[j] = two.input[j], one.input[i]


def rename(model: ModelProto, random: Random) -> None:
    """Let a node read or write another tensor, which creates cycles and duplicate names."""
    node = pick.some(random, pick.nodes(model))
    if node is None:
        return
    name = random.choice([*pick.names(model), "", "nowhere"])
    ends = random.choice((node.input, node.input, node.output))
    if ends and random.random() < 0.8:
        ends[random.randrange(len(ends))] = name
    else:
        ends.append(name)


def drop_ends(model: ModelProto, random: Random) -> None:
    """Remove inputs or outputs of a node."""
    node = pick.some(random, pick.nodes(model))
    if node is not None:
        ends = random.choice((node.input, node.output))
        del ends[random.randint(0, len(ends)) :]


def drop_node(model: ModelProto, random: Random) -> None:
    """Remove a node, a weight, an input or an output."""
    graph = random.choice(pick.graphs(model))
    parts = random.choice((graph.node, graph.initializer, graph.input, graph.output))
    if parts:
        del parts[random.randrange(len(parts))]


def duplicate_node(model: ModelProto, random: Random) -> None:
    """Duplicate a node, a weight, an input or an output."""
    graph = random.choice(pick.graphs(model))
    parts = random.choice((graph.node, graph.node, graph.initializer, graph.input, graph.output))
    if parts:
        parts.add().CopyFrom(random.choice(parts))


def other_operator(model: ModelProto, random: Random) -> None:
    """Change a node's operator or domain."""
    node = pick.some(random, pick.nodes(model))
    if node is None:
        return
    if random.random() < 0.2:
        node.domain = random.choice(("", "ai.onnx", "ai.onnx.ml", "com.microsoft", "local", "x"))
    else:
        node.op_type = random.choice(_OPERATORS)


# fmt: off
_OPERATORS = (
    "Add", "AveragePool", "BatchNormalization", "Cast", "Clip", "Concat", "Constant",
    "ConstantOfShape", "Conv", "CumSum", "DepthToSpace", "DequantizeLinear", "Dropout",
    "Einsum", "Erf", "Expand", "EyeLike", "Flatten", "GRU", "Gather", "GatherElements",
    "GatherND", "Gelu", "Gemm", "GridSample", "GroupNormalization", "Identity", "If", "LSTM",
    "LayerNormalization", "Loop", "MatMul", "MaxPool", "Mean", "Mod", "NonMaxSuppression",
    "NonZero", "OneHot", "Optional", "Pad", "Pow", "QuantizeLinear", "Range", "ReduceMean",
    "ReduceSum", "Reshape", "Resize", "RoiAlign", "Scan", "ScatterElements", "ScatterND",
    "SequenceConstruct", "Shape", "Size", "Slice", "Softmax", "SpaceToDepth", "Split",
    "Squeeze", "Sum", "Tile", "TopK", "Transpose", "Trilu", "Unique", "Unsqueeze", "Upsample",
    "Where", "Xor", "LRN", "Multinomial", "RandomUniformLike", "Compress", "Col2Im",
    "CenterCropPad", "DFT", "HannWindow", "STFT", "MaxUnpool", "LpPool", "Bernoulli",
)
# fmt: on


def known_input(model: ModelProto, random: Random) -> None:
    """Replace an input of the model by a constant, so that more is folded."""
    inputs = [i for i in model.graph.input if i.type.tensor_type.elem_type in _PLAIN]
    found = pick.some(random, inputs)
    if found is None:
        return
    dims = [max(1, min(d.dim_value, 64)) for d in found.type.tensor_type.shape.dim]
    count = 1
    for size in dims:
        count *= size
    kind = found.type.tensor_type.elem_type
    if count <= 4096:
        values = [random.randint(0, 3) for _ in range(count)]
        model.graph.initializer.append(helper.make_tensor(found.name, kind, dims, values))
        model.graph.input.remove(found)


_PLAIN = (TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL)


def nest(model: ModelProto, random: Random) -> None:
    """Nest a node in If nodes, as deep as protobuf can read, or deeper."""
    node = pick.some(random, model.graph.node)
    if node is None:
        return
    condition = f"condition{random.randrange(1000)}"
    model.graph.initializer.append(helper.make_tensor(condition, TensorProto.BOOL, [], [1]))
    inner = NodeProto()
    inner.CopyFrom(node)
    for depth in range(random.choice((1, 3, 10, 20, 24, 30, 45))):
        infos = [helper.make_tensor_value_info(n, 1, None) for n in node.output if n]
        graph = GraphProto(name=f"depth{depth}", node=[inner], output=infos)
        inner = helper.make_node("If", [condition], list(node.output), f"choice{depth}")
        inner.attribute.add(name="then_branch", type=AttributeProto.GRAPH).g.CopyFrom(graph)
        if random.random() < 0.9:
            inner.attribute.add(name="else_branch", type=AttributeProto.GRAPH).g.name = "none"
    node.CopyFrom(inner)


def carry_other(model: ModelProto, random: Random) -> None:
    """Replace a node's subgraph, even by the graph around it."""
    carrying = [a for a in pick.attributes(model) if a.HasField("g")]
    found = pick.some(random, carrying)
    if found is None:
        nest(model, random)
        return
    graph = GraphProto()
    graph.CopyFrom(random.choice(pick.graphs(model)))
    found.g.CopyFrom(graph)


def call(model: ModelProto, random: Random) -> None:
    """Let a node call a function: itself, or one that calls it."""
    if not model.functions:
        function = model.functions.add(name="Own", domain="local", input=["a"], output=["b"])
        function.node.add(op_type="Relu", input=["a"], output=["b"])
        function.opset_import.extend(model.opset_import)
        model.opset_import.append(helper.make_opsetid("local", 1))
    caller, callee = random.choice(model.functions), random.choice(model.functions)
    node = pick.some(random, caller.node if random.random() < 0.5 else model.graph.node)
    if node is not None:
        node.op_type, node.domain = callee.name, callee.domain


def change_function(model: ModelProto, random: Random) -> None:
    """Remove, duplicate or rename a function, or change its inputs and outputs."""
    function = pick.some(random, model.functions)
    if function is None:
        call(model, random)
        return
    how = random.randrange(6)
    if how == 0:
        model.functions.remove(function)
    elif how == 1:
        model.functions.add().CopyFrom(function)
    elif how == 2:
        function.name = random.choice(("", "Relu", "Own", "Outer"))
    elif how == 3:
        ends = random.choice((function.input, function.output))
        ends.append(random.choice([*pick.names(model), "", *ends]))
    elif how == 4:
        del random.choice((function.input, function.output, function.opset_import))[:]
    else:
        function.attribute.append(random.choice(("alpha", "axis", "")))


def multiply(model: ModelProto, random: Random) -> None:
    """Create functions that each call the previous one several times."""
    opsets = [*model.opset_import, helper.make_opsetid("many", 1)]
    model.opset_import.append(opsets[-1])
    nodes = [helper.make_node("Neg", ["a"], ["b"])]
    depth = random.choice((2, 4, 8, 40))
    for i in range(depth):
        made = helper.make_function("many", f"F{i}", ["a"], ["b"], nodes, opsets)
        model.functions.append(made)
        calls = random.choice((1, 2, 3))
        names = ["a", *(f"t{k}" for k in range(calls - 1)), "b"]
        nodes = [
            helper.make_node(f"F{i}", [names[k]], [names[k + 1]], domain="many")
            for k in range(calls)
        ]
    node = pick.some(random, model.graph.node)
    if node is not None:
        node.op_type, node.domain = f"F{depth - 1}", "many"


WIRING: tuple[Mutation, ...] = (
    swap_inputs,
    swap_inputs,
    rename,
    rename,
    drop_ends,
    drop_node,
    duplicate_node,
    other_operator,
    known_input,
    known_input,
    known_input,
    nest,
    carry_other,
    call,
    change_function,
    multiply,
)
