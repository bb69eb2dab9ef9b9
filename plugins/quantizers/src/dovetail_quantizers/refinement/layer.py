"""A node with weights for algorithms: its values in both networks, and methods to change it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import QuantizationError
from dovetail.ir import Array, Node, Tensor, copy_tensor, pack, quantize
from dovetail.ops import from_real, to_real
from dovetail.quantization import Bias, Layer, Weight
from dovetail_quantizers.annotation.annotate import Decisions
from dovetail_quantizers.annotation.statics import bias_encoding
from dovetail_quantizers.calibration.running import node_runner
from dovetail_quantizers.planning.encoding_decision import EncodingDecision
from dovetail_quantizers.planning.plan import Plan
from dovetail_quantizers.planning.roles import present, roles_of, weight_axes
from dovetail_quantizers.planning.value_range import values_of

Floats = NDArray[np.float32]
# Values of inputs by number: an array for each sample.
Flowing = Mapping[int, Sequence[Floats]]
_WHY = "set by an algorithm"


@dataclass(eq=False)
class _Refined:
    """A node in both networks.

    Attributes:
        plan: The plan; its graph is the quantized one.
        node: The node in it.
        sibling: The node in the float graph.
        exact: Real values of its inputs in the float network.
        near: Real values of its inputs in the quantized network.
        float_outputs: Its first output in the float network.
        decisions: The decision on each tensor; those on new tensors are added.
    """

    plan: Plan
    node: Node
    sibling: Node
    exact: Flowing
    near: Flowing
    float_outputs: Sequence[Floats]
    decisions: Decisions

    def float_static(self, i: int) -> Floats | None:
        """Return a static input before quantization, None without one."""
        tensor = _statics(self.sibling).get(i)
        return None if tensor is None else values_of(tensor)

    def quantized_static(self, i: int) -> Floats | None:
        """Return the current real values of a static input, None without one."""
        tensor = _statics(self.node).get(i)
        return None if tensor is None else real_values(tensor)

    def accumulated(self) -> Iterator[Floats]:
        """Compute from the quantized inputs and the current weights, in real numbers."""
        statics = {i: real_values(t) for i, t in _statics(self.node).items()}
        count = len(self.float_outputs)
        given = ({i: each[s] for i, each in self.near.items()} for s in range(count))
        yield from self.computed(given, statics)

    def set_stored(self, i: int, stored: Array) -> None:
        """Store other integers for a static input, of the same shape, type and encoding."""
        tensor = self.own(i)
        if stored.shape != tensor.shape:
            raise QuantizationError(
                f"integers of shape {stored.shape} for a weight of {tensor.shape}",
                where=self.node.where,
            )
        tensor.data = pack(stored, tensor.dtype)

    def computed(
        self, given: Iterator[Mapping[int, Floats]], statics: Mapping[int, Array]
    ) -> Iterator[Floats]:
        """Compute the first output from real values and static inputs."""
        shape = with_params(self.node, self.sibling)
        backend = self.plan.options.calibration_backend
        with node_runner(shape, statics, self.plan.ops, backend) as run:
            for values in given:
                yield run(values)[0]

    def tensor(self, i: int) -> Tensor:
        """Return an input, which must be present."""
        found = dict(present(self.node)).get(i)
        if found is None:
            raise AssertionError(f"{self.node.where} has no input {i}")
        return found

    def own(self, i: int) -> Tensor:
        """Return a static input, copied if other nodes read it."""
        tensor = self.tensor(i)
        graph = self.plan.graph
        if len(graph.consumers(tensor)) == 1 and self.node.inputs.count(tensor) == 1:
            return tensor
        name = graph.fresh_name(f"{tensor.name}.{self.node.name}")
        made = graph.add_tensor(copy_tensor(tensor, name=name))
        inputs = [made if j == i else t for j, t in enumerate(self.node.inputs)]
        graph.set_inputs(self.node, inputs)
        if tensor in self.decisions:
            self.decisions[made] = self.decisions[tensor]
        return made


@dataclass(eq=False)
class RefinedNode(_Refined):
    """See `dovetail.quantization.WeightedNode`."""

    layer: Layer | None = None

    @property
    def float_inputs(self) -> Flowing:
        """The inputs of the node in the float network, by number."""
        return self.exact

    @property
    def quantized_inputs(self) -> Flowing:
        """The inputs of the node in the quantized network, by number."""
        return self.near


@dataclass(eq=False)
class RefinedLayer(_Refined):
    """See `dovetail.quantization.Layer`.

    Attributes:
        bias: Number of the bias input, which may be absent.
        data, weight: Numbers of the inputs whose products the bias is added to.
    """

    bias: int
    data: int
    weight: int

    @property
    def channel_axis(self) -> int | None:
        """The weight's axis of output channels."""
        role = roles_of(self.node, self.plan.ops).get(self.weight)
        if not isinstance(role, Weight):
            return None
        return weight_axes(role, self.node, len(self.tensor(self.weight).shape))[0]

    @property
    def float_weight(self) -> Floats:
        """The weight before quantization."""
        found = self.float_static(self.weight)
        assert found is not None
        return found

    @property
    def float_bias(self) -> Floats | None:
        """The bias before quantization, None without one."""
        return self.float_static(self.bias)

    @property
    def quantized_bias(self) -> Floats | None:
        """The current bias of the quantized network, None without one."""
        return self.quantized_static(self.bias)

    @property
    def float_inputs(self) -> Sequence[Floats]:
        """The inputs of the layer in the float network."""
        return self.exact[self.data]

    @property
    def quantized_inputs(self) -> Sequence[Floats]:
        """The inputs of the layer in the quantized network."""
        return self.near[self.data]

    def run(self, inputs: Floats, weight: Floats, bias: Floats | None) -> Floats:
        """Run the layer on any real values."""
        statics: dict[int, Array] = {i: values_of(t) for i, t in _statics(self.sibling).items()}
        statics[self.weight] = weight
        if bias is not None:
            statics[self.bias] = bias
        elif self.bias in statics:
            statics[self.bias] = np.zeros_like(statics[self.bias])
        return next(self.computed(iter([{self.data: inputs}]), statics))

    def set_weight(self, stored: Array) -> None:
        """Store other integers for the weight, of the same shape, type and encoding."""
        self.set_stored(self.weight, stored)

    def set_bias(self, values: Floats) -> None:
        """Store a bias, adding one to a node without; a new encoding is chosen."""
        values = np.asarray(values, np.float32)
        present = self.quantized_bias is not None
        bitwidth = self.plan.options.bias_bits
        if present and self.tensor(self.bias).dtype.is_fixed_point:
            bitwidth = 32 if self.tensor(self.bias).dtype.bits == 32 else 8
        chosen = bias_encoding(
            values,
            Bias(self.data, self.weight),
            _encoded(self.tensor(self.data)),
            _encoded(self.tensor(self.weight)),
            bitwidth,
            self.plan.recipes.bias,
        )
        tensor = self.own(self.bias) if present else self._new_bias(values)
        tensor.dtype, tensor.encoding = chosen.dtype, chosen.encoding
        _store(tensor, values)
        why = f"{chosen.why}; {_WHY}"
        self.decisions[tensor] = EncodingDecision(chosen.dtype, chosen.encoding, why)

    def _new_bias(self, values: Floats) -> Tensor:
        graph = self.plan.graph
        made = Tensor.static(graph.fresh_name(f"{self.node.name}.bias"), values)
        graph.add_tensor(made)
        inputs = list(self.node.inputs) + [None] * (self.bias + 1 - len(self.node.inputs))
        inputs[self.bias] = made
        graph.set_inputs(self.node, inputs)
        return made


def real_values(tensor: Tensor) -> Array:
    """Return the real values of a static tensor of any type."""
    return to_real(tensor.stored(), tensor.spec)


def with_params(node: Node, sibling: Node) -> Node:
    """Return a node that computes a quantized node's outputs with the params of its sibling."""
    return sibling.with_tensors(node.inputs, node.outputs)


def _statics(node: Node) -> dict[int, Tensor]:
    return {i: t for i, t in present(node) if t.kind.is_static}


def _encoded(tensor: Tensor) -> EncodingDecision:
    return EncodingDecision(tensor.dtype, tensor.encoding, "")


def _store(tensor: Tensor, values: Floats) -> None:
    if tensor.encoding is None:
        tensor.data = pack(from_real(values, tensor.spec), tensor.dtype)
    else:
        tensor.data = pack(quantize(values, tensor.encoding, tensor.dtype), tensor.dtype)
