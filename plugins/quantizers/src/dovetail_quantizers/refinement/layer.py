"""A layer for algorithms: data, one weight and a bias, and methods to change them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import QuantizationError
from dovetail.ir import Array, Encoding, Node, Tensor, pack, quantize
from dovetail.ops import from_real
from dovetail.quantization import Bias, Weight
from dovetail_quantizers.annotation.statics import bias_encoding
from dovetail_quantizers.planning.encoding_decision import EncodingDecision
from dovetail_quantizers.planning.roles import roles_of, weight_axes
from dovetail_quantizers.refinement.node import RefinedNode, static

Floats = NDArray[np.float32]
_WHY = "set by an algorithm"


class RefinedLayer:
    """See `dovetail.quantization.Layer`.

    Args:
        within: The node.
        bias: Number of the bias input, which may be absent.
        role: Its role, with the numbers of data and weight.
    """

    def __init__(self, within: RefinedNode, bias: int, role: Bias) -> None:
        assert role.data is not None
        assert role.weight is not None
        self._within = within
        self._bias, self._data, self.weight = bias, role.data, role.weight
        self._role = role

    @property
    def node(self) -> Node:
        """The node in the quantized graph."""
        return self._within.node

    @property
    def channel_axis(self) -> int | None:
        """The weight's axis of output channels."""
        role = roles_of(self.node, self._within.plan.ops).get(self.weight)
        if not isinstance(role, Weight):
            return None
        return weight_axes(role, self.node, len(static(self.node, self.weight).shape))[0]

    @property
    def float_weight(self) -> Floats:
        """The weight before quantization."""
        found = self._within.float_static(self.weight)
        assert found is not None
        return found

    @property
    def float_bias(self) -> Floats | None:
        """The bias before quantization, None without one."""
        return self._within.float_static(self._bias)

    @property
    def quantized_bias(self) -> Floats | None:
        """The current bias of the quantized network, None without one."""
        return self._within.quantized_static(self._bias)

    @property
    def float_inputs(self) -> Sequence[Floats]:
        """The inputs of the layer in the float network."""
        return self._within.float_inputs[self._data]

    @property
    def quantized_inputs(self) -> Sequence[Floats]:
        """The inputs of the layer in the quantized network."""
        return self._within.quantized_inputs[self._data]

    @property
    def float_outputs(self) -> Sequence[Floats]:
        """The outputs of the layer in the float network."""
        return self._within.float_outputs

    def accumulated(self) -> Iterator[Floats]:
        """Compute from the quantized inputs and the current weights, in real numbers."""
        return self._within.accumulated()

    def run(self, inputs: Floats, weight: Floats, bias: Floats | None) -> Floats:
        """Run the layer on any real values."""
        statics = self._within.float_statics()
        statics[self.weight] = weight
        if bias is not None:
            statics[self._bias] = bias
        elif self._bias in statics:
            statics[self._bias] = np.zeros_like(statics[self._bias])
        return next(self._within.computed(iter([{self._data: inputs}]), statics))

    def set_weight(self, stored: Array) -> None:
        """Store other integers for the weight, of the same shape, type and encoding."""
        self._within.set_stored(self.weight, stored)

    def set_weight_values(self, values: Floats, encoding: Encoding | None = None) -> None:
        """Store real values, rounded to nearest, with another encoding if one is given."""
        tensor = self._within.own(self.weight)
        if encoding is not None:
            if faults := encoding.faults(tensor.shape, tensor.dtype):
                raise QuantizationError("; ".join(faults), where=self.node.where)
            tensor.encoding = encoding
            self._within.decisions[tensor] = EncodingDecision(tensor.dtype, encoding, _WHY)
        _store(tensor, values)

    def set_bias(self, values: Floats) -> None:
        """Store a bias, adding one to a node without; a new encoding is chosen."""
        plan = self._within.plan
        data = _encoded(static(self.node, self._data))
        weight = _encoded(static(self.node, self.weight))
        present = self._within.quantized_static(self._bias) is not None
        bitwidth = plan.options.bias_bitwidth
        if present and static(self.node, self._bias).dtype.is_fixed_point:
            bitwidth = 32 if static(self.node, self._bias).dtype.bits == 32 else 8
        values = np.asarray(values, np.float32)
        chosen = bias_encoding(values, self._role, data, weight, bitwidth, plan.recipes.bias)
        tensor = self._within.own(self._bias) if present else self._new_bias(values)
        tensor.dtype, tensor.encoding = chosen.dtype, chosen.encoding
        _store(tensor, values)
        why = f"{chosen.why}; {_WHY}"
        self._within.decisions[tensor] = EncodingDecision(chosen.dtype, chosen.encoding, why)

    def _new_bias(self, values: Floats) -> Tensor:
        graph = self._within.plan.graph
        made = Tensor.static(graph.fresh_name(f"{self.node.name}.bias"), values)
        graph.add_tensor(made)
        inputs = list(self.node.inputs) + [None] * (self._bias + 1 - len(self.node.inputs))
        inputs[self._bias] = made
        graph.set_inputs(self.node, inputs)
        return made


def _encoded(tensor: Tensor) -> EncodingDecision:
    return EncodingDecision(tensor.dtype, tensor.encoding, "")


def _store(tensor: Tensor, values: Floats) -> None:
    if tensor.encoding is None:
        tensor.data = pack(from_real(values, tensor.spec), tensor.dtype)
    else:
        tensor.data = pack(quantize(values, tensor.encoding, tensor.dtype), tensor.dtype)
