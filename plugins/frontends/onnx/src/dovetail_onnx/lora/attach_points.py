"""Attach points: the ONNX nodes whose weights adapters change."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from onnx import AttributeProto, GraphProto, NodeProto, TensorProto

from dovetail.errors import FrontendError, Problem, suggest_name
from dovetail.ir import Shape
from dovetail_onnx.lora.peft import LoraModule

_LAYERS = ("MatMul", "Gemm", "Conv")


@dataclass(frozen=True, slots=True, eq=False)
class AttachPoint:
    """A layer that gets a side branch.

    Attributes:
        module: Name of the module in the adapters.
        node: The layer.
        weight: Its weight.
    """

    module: str
    node: NodeProto
    weight: TensorProto

    @property
    def stem(self) -> str:
        """The beginning of the names of the branch's nodes and tensors."""
        return self.node.name or self.node.output[0]

    @property
    def sizes(self) -> tuple[Shape, Shape]:
        """The shapes of lora_A and lora_B without the rank: (in, ...) and (out, ...)."""
        shape = tuple(self.weight.dims)
        if self.node.op_type == "Conv":
            return shape[1:], (shape[0], *(1 for _ in shape[2:]))
        first, second = shape
        if number(self.node, "transB"):
            first, second = second, first
        return (first,), (second,)

    def faults(self, name: str, module: LoraModule) -> Iterator[Problem]:
        """Yield the reasons why the weights of an adapter do not fit."""
        ins, outs = self.sizes
        expected = (module.rank, *ins), (outs[0], module.rank, *outs[1:])
        if (module.a.shape, module.b.shape) != expected:
            yield Problem(
                f"weights {module.a.shape} and {module.b.shape} do not match those of "
                f"'{self.stem}': expected {expected[0]} and {expected[1]}",
                f"module '{self.module}' of adapter '{name}'",
            )


def number(node: NodeProto, name: str, default: float = 0) -> float:
    """Return a numeric attribute of a node, or the default."""
    for attribute in node.attribute:
        if attribute.name == name:
            is_float = attribute.type == AttributeProto.FLOAT
            return float(attribute.f if is_float else attribute.i)
    return default


def attach_points(
    graph: GraphProto,
    modules: Sequence[str],
    mapping: Mapping[str, Sequence[str]] | None,
    where: str,
) -> list[AttachPoint]:
    """Return the layers of modules, in the order of the graph.

    Args:
        graph: The main graph of the model.
        modules: Names of modules.
        mapping: Names of nodes, or of their outputs, by module. Without it, a module belongs to the
            only layer whose name it is, as exporters of PyTorch write it: `a.b` for `/a/b/MatMul`.
        where: Name of the model, for errors.

    Raises:
        FrontendError: A module has no layer, or one that cannot have a branch; all are listed.
    """
    weights = {tensor.name: tensor for tensor in graph.initializer}
    layers = [node for node in graph.node if node.op_type in _LAYERS]
    problems: list[Problem] = []
    found: dict[str, AttachPoint] = {}
    for module in modules:
        for node in _nodes_of(module, layers, graph, mapping, problems):
            weight = weights.get(node.input[1]) if len(node.input) > 1 else None
            if (fault := _fault(node, weight)) or weight is None:
                problems.append(Problem(fault, f"module '{module}'"))
            elif node.output[0] in found:
                text = f"'{node.name}' already belongs to '{found[node.output[0]].module}'"
                problems.append(Problem(text, f"module '{module}'"))
            else:
                found[node.output[0]] = AttachPoint(module, node, weight)
    if problems:
        raise FrontendError("the adapters do not match the model", where=where, problems=problems)
    return [found[node.output[0]] for node in layers if node.output[0] in found]


def _nodes_of(
    module: str,
    layers: Sequence[NodeProto],
    graph: GraphProto,
    mapping: Mapping[str, Sequence[str]] | None,
    problems: list[Problem],
) -> list[NodeProto]:
    where = f"module '{module}'"
    if mapping is None:
        fitting = [node for node in layers if _is_named(node, module)]
        if len(fitting) != 1:
            text = f"{len(fitting)} nodes have its name; expected one"
            hint = "name its node in `attach_point_onnx_mapping`"
            problems.append(Problem(text, where, hint))
            return []
        return fitting
    if module not in mapping:
        problems.append(Problem("not in the mapping", where, suggest_name(module, mapping)))
        return []
    by_name = {output: node for node in graph.node for output in node.output}
    by_name |= {node.name: node for node in graph.node if node.name}
    known = [node.name or node.output[0] for node in layers]
    for name in mapping[module]:
        if name not in by_name:
            text = f"node '{name}' not found in the model"
            problems.append(Problem(text, where, suggest_name(name, known)))
    return [by_name[name] for name in mapping[module] if name in by_name]


def _is_named(node: NodeProto, module: str) -> bool:
    scope = node.name.strip("/").replace("/", ".").rpartition(".")[0]
    pairs = (module, scope), (scope, module)
    return bool(scope) and any(f".{long}".endswith(f".{short}") for long, short in pairs)


def _fault(node: NodeProto, weight: TensorProto | None) -> str:
    """Return why a node cannot have a branch; "" if it can."""
    name = node.name or node.output[0]
    if node.op_type not in _LAYERS:
        return f"'{name}' is a {node.op_type}; expected {', '.join(_LAYERS)}"
    if weight is None:
        return f"the weight of '{name}' is not an initializer"
    if weight.data_type not in (TensorProto.FLOAT, TensorProto.FLOAT16):
        return f"the weight of '{name}' is not float32 or float16"
    if node.op_type == "Conv" and number(node, "group", 1) != 1:
        return f"the convolution '{name}' has groups"
    if node.op_type != "Conv" and (len(weight.dims) != 2 or number(node, "transA")):
        return f"'{name}' is not a product with a matrix on the right"
    if not math.prod(weight.dims):
        return f"the weight of '{name}' is empty"
    return ""
