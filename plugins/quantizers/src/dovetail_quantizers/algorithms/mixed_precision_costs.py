"""The cost of layers in each precision: bit operations and bytes of weights."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from dovetail.errors import ConfigError, Problem
from dovetail.ir import Graph, Node, Tensor
from dovetail.ops import OpRegistry
from dovetail.quantization import Bias, Precision
from dovetail_quantizers.algorithms.channel_paths import title
from dovetail_quantizers.algorithms.linear_layer import TRANSPOSED
from dovetail_quantizers.planning.roles import roles_of
from dovetail_quantizers.planning.rules import is_quantized

_FIXED = re.compile(r"w(4|8|16)a(8|16)")
_FLOAT = re.compile(r"fp(16|32)")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A precision to try for layers.

    Attributes:
        name: The name in the options.
        precision: The precision.
        weight_bits, activation_bits: Bitwidths of the weights and of the outputs.
    """

    name: str
    precision: Precision
    weight_bits: int
    activation_bits: int


@dataclass(frozen=True, slots=True)
class Layer:
    """A node with weights.

    Attributes:
        name: Name of the node.
        title: Name for messages.
        products: Multiplications of one run.
        weights: Number of weights.
        sources: Names of the layers that compute its inputs, possibly through ops without
            weights; empty if it reads a graph input.
        input_bits: Bitwidth of inputs that no layer computes.
    """

    name: str
    title: str
    products: int
    weights: int
    sources: tuple[str, ...]
    input_bits: int

    def operations(self, chosen: Mapping[str, Candidate]) -> int:
        """Return the bit operations of a run: products times both bitwidths."""
        mine = chosen[self.name]
        read = [chosen[name].activation_bits for name in self.sources]
        bits = mine.activation_bits if _is_float(mine) else max(read, default=self.input_bits)
        return self.products * mine.weight_bits * bits

    def bytes(self, candidate: Candidate) -> float:
        """Return the bytes of the weights."""
        return self.weights * candidate.weight_bits / 8


def candidates_from(text: str) -> tuple[Candidate, ...]:
    """Return the candidates of a text such as "w4a8,w8a16,fp16".

    Raises:
        ConfigError: Some names are invalid; all are listed.
    """
    found: dict[str, Candidate] = {}
    problems: list[Problem] = []
    for name in (each.strip() for each in text.split(",")):
        if fixed := _FIXED.fullmatch(name):
            weight, activation = int(fixed[1]), int(fixed[2])
            found[name] = Candidate(name, Precision(activation, weight), weight, activation)
        elif floats := _FLOAT.fullmatch(name):
            bits = int(floats[1])
            found[name] = Candidate(name, Precision(float_bitwidth=bits), bits, bits)
        else:
            problems.append(Problem(f"'{name}' is not a precision"))
    if problems:
        raise ConfigError(
            "invalid candidates of mixed precision",
            hint="write weights' 4, 8 or 16 bits and activations' 8 or 16 as w4a8; or fp16, fp32",
            problems=problems,
        )
    return tuple(found.values())


def layers_of(graph: Graph, ops: OpRegistry, input_bits: int) -> tuple[Layer, ...]:
    """Return the layers of a float graph, in order."""
    found: dict[Node, Layer] = {}
    layers_before: dict[Tensor, tuple[str, ...]] = {}
    for node in graph.nodes:
        read = [t for t in node.inputs if t is not None and not t.kind.is_static]
        sources = tuple(dict.fromkeys(name for t in read for name in layers_before.get(t, ())))
        weight = _weight(node, ops)
        if weight is not None:
            products = _positions(node) * math.prod(weight.shape)
            count = math.prod(weight.shape)
            found[node] = Layer(node.name, title(node), products, count, sources, input_bits)
            sources = (node.name,)
        layers_before |= dict.fromkeys(node.outputs, sources)
    return tuple(found.values())


def _weight(node: Node, ops: OpRegistry) -> Tensor | None:
    """Return the weight of a layer, None for other nodes."""
    for role in roles_of(node, ops).values():
        if isinstance(role, Bias) and role.data is not None and role.weight is not None:
            weight, data = node.inputs[role.weight], node.inputs[role.data]
            is_weight = weight is not None and weight.kind.is_static and is_quantized(weight)
            if is_weight and weight is not None and data is not None and not data.kind.is_static:
                return weight
    return None


def _positions(node: Node) -> int:
    """Return how often each weight is used in a run."""
    data = node.inputs[0]
    assert data is not None
    used = data if node.op_type in TRANSPOSED else node.outputs[0]
    return math.prod(used.shape[:-1])


def _is_float(candidate: Candidate) -> bool:
    return candidate.precision.float_bitwidth is not None
