"""Layers with static weights, and factors that are moved into the weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Array, DType, Graph, Node, Scalar, Tensor, TensorKind, pack
from dovetail_opset.families import FAMILIES
from dovetail_quantizers.planning.value_range import values_of

Vector = NDArray[np.float64]

DEPTHWISE = ("DepthWiseConv1d", "DepthWiseConv2d")
CONVOLUTIONS, TRANSPOSED = FAMILIES["convolution"], FAMILIES["transposed"]
LINEAR = frozenset((*CONVOLUTIONS, *TRANSPOSED, *FAMILIES["matrix"]))


class LinearLayer:
    """A convolution, FullyConnected or MatMul that is the only consumer of its weights.

    Weights are viewed as (taps, taken, groups, made): from input channel i to output channel o of a
    group. The channels of the node are those of its first group, then those of its second, ...

    Factors are collected and applied once, by `store`. Factors of input channels repeat if there
    are fewer than channels.

    Attributes:
        node: The node.
        taken, made: Numbers of input and output channels.
        bias: (made,), zeros without a bias; with the factors so far.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self._weight = _input(node, 1)
        _, taken, groups, made = _view(node, self._weight.values()).shape
        self.taken, self.made = taken * groups, made * groups
        self._times = np.ones((groups, taken))
        self._over = np.ones((groups, made))
        self._period = taken
        bias = node.inputs[2] if len(node.inputs) > 2 else None
        self.bias = np.zeros(self.made) if bias is None else bias.values().astype(np.float64)

    def repeat_inputs(self, count: int) -> None:
        """Declare that factors of input channels repeat after `count`: ranges are then cheaper."""
        if len(self._times) == 1:
            self._period = count

    @cached_property
    def _magnitudes(self) -> NDArray[np.float32]:
        """Maximum magnitudes of the weights with the same factors, (period, groups, made)."""
        values = _view(self.node, values_of(self._weight))
        values = values.reshape(-1, self._period, *self._over.shape)
        maximum, minimum = values.max(axis=0, initial=0.0), values.min(axis=0, initial=0.0)
        return np.asarray(np.maximum(maximum, -minimum), np.float32)

    def output_ranges(self) -> Vector:
        """Return the maximum magnitude of the weights of each output channel, (made,)."""
        times = self._times[:, : self._period].astype(np.float32)
        maximum = (self._magnitudes * times.T[:, :, None]).max(axis=0, initial=0.0)
        return np.asarray((maximum / self._over).ravel(), np.float64)

    def input_ranges(self, count: int) -> Vector:
        """Return the maximum magnitude of the weights of each of `count` input channels."""
        scaled = (self._magnitudes / self._over.astype(np.float32)).max(axis=2, initial=0.0)
        ranges = (scaled.T * self._times[:, : self._period]).reshape(-1, count)
        return np.asarray(ranges.max(axis=0, initial=0.0), np.float64)

    def divide_outputs(self, factors: Vector) -> None:
        """Divide the output channels by factors, (made,)."""
        self._over *= factors.reshape(self._over.shape)
        self.bias = self.bias / factors

    def multiply_inputs(self, factors: Vector) -> None:
        """Multiply the weights of each input channel, which is divided by its factor."""
        self._times *= self._spread(factors)

    def response(self, shift: Vector) -> Vector:
        """Return the change of the outputs for a shift of the input channels, (made,).

        All taps must see the shift: this excludes zero padding.
        """
        shifts = self._spread(shift) * self._times
        some = shifts.any(axis=0)
        weights = _view(self.node, self._weight.values())[:, some].sum(axis=0, dtype=np.float64)
        reached = np.einsum("tgm,gt->gm", weights, shifts[:, some])
        return np.asarray((reached / self._over).ravel(), np.float64)

    def store(self, graph: Graph) -> None:
        """Store the changed weights and bias."""
        values = values_of(self._weight)
        # one after the other: all factors at once would take twice the memory of the weights
        scaled = _view(self.node, values) * self._times.T[:, :, None].astype(np.float32)
        scaled /= self._over.astype(np.float32)
        self._weight.data = pack(_unview(self.node, scaled, values.shape), self._weight.dtype)
        if self.bias.any() or len(self.node.inputs) > 2:
            store_vector(graph, self.node, 2, self.bias)

    def _spread(self, values: Vector) -> Vector:
        return np.tile(values, self.taken // len(values)).reshape(self._times.shape)


class LinearLayers(dict[Node, LinearLayer]):
    """The layers of nodes; each is created at its first use, to collect all factors of its node."""

    def __missing__(self, node: Node) -> LinearLayer:
        self[node] = layer = LinearLayer(node)
        return layer


def has_weights(node: Node) -> bool:
    """Return whether the second input of a node, one of LINEAR, is static: then it is a layer."""
    weight = node.inputs[1]
    return weight is not None and weight.kind.is_static


def why_not_linear(graph: Graph, node: Node, given: Collection[str] = ()) -> str | None:
    """Return why the weights of a node of LINEAR cannot be rewritten; None if they can.

    Args:
        graph: The graph.
        node: The node.
        given: Names of tensors with given encodings.
    """
    if why := why_not_constant(node, given):
        return why
    weight = _input(node, 1)
    if len(graph.consumers(weight)) > 1 or node.inputs.count(weight) > 1:
        return f"other nodes share the weights '{weight.source}'"
    if node.op_type == "MatMul" and math.prod(weight.shape[:-2]) != 1:
        return "the weights are a batch of matrices"
    return None


def why_not_constant(node: Node, given: Collection[str]) -> str | None:
    """Return why the weights and the bias of a node cannot be replaced; None if they can."""
    present = [t for t in node.inputs[1:] if t is not None]
    if any(t.name in given for t in present):
        return "an encoding is given for the weights or the bias"
    if any(t.kind is not TensorKind.STATIC or t.data is None for t in present):
        return "the weights or the bias are not constant"
    if any(t.dtype is not DType.FLOAT_32 for t in present):
        return "the weights or the bias are not FLOAT_32"
    return None


def store_vector(graph: Graph, node: Node, port: int, values: Vector) -> None:
    """Set a vector as an input of a node; a shared vector is replaced, not changed."""
    inputs = [*node.inputs, *[None] * (port + 1 - len(node.inputs))]
    old = inputs[port]
    if old is not None and len(graph.consumers(old)) == 1 and inputs.count(old) == 1:
        old.data = pack(values.astype(np.float32), old.dtype)
        return
    stem = f"{node.name}.{port}" if old is None else f"{old.name}.{node.name}"
    made = Tensor.static(
        graph.fresh_name(stem),
        values.astype(np.float32),
        source=None if old is None else old.source,
        source_perm=None if old is None else old.source_perm,
    )
    inputs[port] = graph.add_tensor(made)
    graph.set_inputs(node, inputs)


def number(node: Node, name: str, default: float = 0) -> float:
    """Return a scalar among a node's params, or the default."""
    param = node.params.get(name)
    return float(param.value) if isinstance(param, Scalar) else default


def integers(node: Node, name: str) -> tuple[int, ...]:
    """Return the numbers of a tensor or scalar param of a node, none if it is absent."""
    param = node.params.get(name)
    if isinstance(param, Tensor):
        return tuple(int(v) for v in param.values().ravel())
    return () if param is None else (int(param.value),)


def _input(node: Node, i: int) -> Tensor:
    found = node.inputs[i]
    assert found is not None
    return found


def _view(node: Node, weight: Array) -> Array:
    """Return weights as (taps, taken, groups, made)."""
    return _shaped(node, weight.shape)[0](weight)


def _unview(node: Node, weight: Array, shape: tuple[int, ...]) -> Array:
    return _shaped(node, shape)[1](weight).reshape(shape)


_Arrange = Callable[[Array], Array]


def _shaped(node: Node, shape: tuple[int, ...]) -> tuple[_Arrange, _Arrange]:
    """Return the functions to and from the view (taps, taken, groups, made) of weights."""
    taps, (taken, made) = math.prod(shape[:-2]), shape[-2:]
    groups = int(number(node, "group", 1))
    if node.op_type in TRANSPOSED:
        by_group = (taps, groups, taken // groups, made)
        return lambda w: w.reshape(by_group).swapaxes(1, 2), lambda v: v.swapaxes(1, 2)
    if node.op_type in DEPTHWISE:
        groups = _input(node, 0).shape[-1]
    if node.op_type == "FullyConnected" or number(node, "transpose_in1"):
        turned = (1, made, 1, taken)  # (made, taken) in memory
        return lambda w: w.swapaxes(-1, -2).reshape(turned), lambda v: v[0, :, 0].T
    return lambda w: w.reshape(taps, taken, groups, made // groups), lambda v: v
