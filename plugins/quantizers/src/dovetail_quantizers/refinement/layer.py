"""A layer as algorithms see it: its inputs in both networks, its weights, and what changes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import QuantizationError
from dovetail.ir import Array, Encoding, Node, Tensor, pack, quantize
from dovetail.ops import from_real, to_real
from dovetail.quantization import Bias, Weight
from dovetail_quantizers.annotation.annotate import Decisions
from dovetail_quantizers.annotation.statics import bias_encoding, values_of
from dovetail_quantizers.planning.encoded import Encoded
from dovetail_quantizers.planning.plan import Plan
from dovetail_quantizers.planning.roles import roles_of, weight_axes
from dovetail_quantizers.refinement.node_runner import NodeRunner

Floats = NDArray[np.float32]
_WHY = "set by an algorithm"


class RefinedLayer:
    """See `dovetail.quantization.Layer`.

    Args:
        plan: The plan; its graph is the quantized one.
        node: The node in it.
        twin: The node in the float graph.
        bias: Number of the bias's input, whether or not it is there, and its role.
        inputs: Real values of the data, for each sample: in the float network and the other.
        outputs: What the float network computes.
        decisions: Get what the setters decide.
    """

    def __init__(
        self,
        plan: Plan,
        node: Node,
        twin: Node,
        bias: tuple[int, Bias],
        inputs: tuple[Sequence[Floats], Sequence[Floats]],
        outputs: Sequence[Floats],
        decisions: Decisions,
    ) -> None:
        self.node = node
        self.float_inputs, self.quantized_inputs = inputs
        self.float_outputs = outputs
        self._plan = plan
        self._twin = twin
        self._bias, self._role = bias
        self._decisions = decisions

    @property
    def weight(self) -> int:
        """Number of the input that is the weight."""
        assert self._role.weight is not None
        return self._role.weight

    @property
    def channel_axis(self) -> int | None:
        """The weight's axis of output channels."""
        role = roles_of(self.node, self._plan.ops).get(self.weight)
        if not isinstance(role, Weight):
            return None
        return weight_axes(role, self.node, len(self._static(self.node, self.weight).shape))[0]

    @property
    def float_weight(self) -> Floats:
        """The weight before it was quantized."""
        return values_of(self._static(self._twin, self.weight))

    @property
    def float_bias(self) -> Floats | None:
        """The bias before it was quantized, None where there is none."""
        if self._tensor(self._twin, self._bias) is None:
            return None
        return values_of(self._static(self._twin, self._bias))

    @property
    def quantized_bias(self) -> Floats | None:
        """The bias that the quantized network adds by now, None where there is none."""
        tensor = self._tensor(self.node, self._bias)
        return None if tensor is None else real_values(tensor)

    def accumulated(self) -> Iterator[Floats]:
        """Computes from the quantized inputs and the present weights, in real numbers."""
        statics = {i: real_values(t) for i, t in self._statics(self.node).items()}
        yield from self._computed(self.quantized_inputs, statics)

    def run(self, inputs: Floats, weight: Floats, bias: Floats | None) -> Floats:
        """Computes the layer from any real values."""
        statics = {i: values_of(t) for i, t in self._statics(self._twin).items()}
        statics[self.weight] = weight
        if bias is not None:
            statics[self._bias] = bias
        elif self._bias in statics:
            statics[self._bias] = np.zeros_like(statics[self._bias])
        return next(iter(self._computed([inputs], statics)))

    def set_weight(self, stored: Array) -> None:
        """Stores other integers in the weight's type, of its shape and under its encoding."""
        tensor = self._own(self.weight)
        if stored.shape != tensor.shape:
            raise QuantizationError(
                f"integers of shape {stored.shape} for a weight of {tensor.shape}",
                where=self.node.where,
            )
        tensor.data = pack(stored, tensor.dtype)

    def set_weight_values(self, values: Floats, encoding: Encoding | None = None) -> None:
        """Stores real values, rounded to the nearest, under another encoding if one is given."""
        tensor = self._own(self.weight)
        if encoding is not None:
            if faults := encoding.faults(tensor.shape, tensor.dtype):
                raise QuantizationError("; ".join(faults), where=self.node.where)
            tensor.encoding = encoding
            self._decisions[tensor] = Encoded(tensor.dtype, encoding, _WHY)
        _store(tensor, values)

    def set_bias(self, values: Floats) -> None:
        """Stores a bias, adding one to a node that has none; its encoding is chosen anew."""
        assert self._role.data is not None
        data = _encoded(self._static(self.node, self._role.data))
        weight = _encoded(self._static(self.node, self.weight))
        present = self._tensor(self.node, self._bias)
        bitwidth = self._plan.options.bias_bitwidth
        if present is not None and present.dtype.is_fixed_point:
            bitwidth = 32 if present.dtype.bits == 32 else 8
        values = np.asarray(values, np.float32)
        chosen = bias_encoding(values, self._role, data, weight, bitwidth, self._plan.recipes.bias)
        tensor = self._own(self._bias) if present is not None else self._new_bias(values)
        tensor.dtype, tensor.encoding = chosen.dtype, chosen.encoding
        _store(tensor, values)
        self._decisions[tensor] = Encoded(chosen.dtype, chosen.encoding, f"{chosen.why}; {_WHY}")

    # -- inside ----------------------------------------------------------------------------------

    def _computed(self, data: Sequence[Floats], statics: Mapping[int, Array]) -> Iterator[Floats]:
        shape = Node(
            self._twin.name,
            self._twin.package,
            self._twin.op_type,
            self.node.inputs,
            self.node.outputs,
            self._twin.params,
        )
        options = self._plan.options
        run = NodeRunner(shape, statics, self._plan.ops, options.calibration_backend)
        assert self._role.data is not None
        try:
            for values in data:
                yield run({self._role.data: values})[0]
        finally:
            run.close()

    def _statics(self, node: Node) -> dict[int, Tensor]:
        return {i: t for i, t in enumerate(node.inputs) if t is not None and t.kind.is_static}

    def _static(self, node: Node, i: int) -> Tensor:
        found = self._tensor(node, i)
        if found is None:
            raise AssertionError(f"{node.where} has no input {i}")
        return found

    def _tensor(self, node: Node, i: int) -> Tensor | None:
        return node.inputs[i] if i < len(node.inputs) else None

    def _own(self, i: int) -> Tensor:
        """The static input, as a tensor that no other node reads."""
        tensor = self._static(self.node, i)
        graph = self._plan.graph
        if len(graph.consumers(tensor)) == 1 and self.node.inputs.count(tensor) == 1:
            return tensor
        made = Tensor(
            graph.fresh_name(f"{tensor.name}.{self.node.name}"),
            tensor.dtype,
            tensor.shape,
            tensor.kind,
            encoding=tensor.encoding,
            data=tensor.data,
            source=tensor.source,
            source_perm=tensor.source_perm,
        )
        graph.add_tensor(made)
        inputs = [made if j == i else t for j, t in enumerate(self.node.inputs)]
        graph.set_inputs(self.node, inputs)
        if tensor in self._decisions:
            self._decisions[made] = self._decisions[tensor]
        return made

    def _new_bias(self, values: Floats) -> Tensor:
        graph = self._plan.graph
        made = Tensor.static(graph.fresh_name(f"{self.node.name}.bias"), values)
        graph.add_tensor(made)
        inputs = list(self.node.inputs) + [None] * (self._bias + 1 - len(self.node.inputs))
        inputs[self._bias] = made
        graph.set_inputs(self.node, inputs)
        return made


def real_values(tensor: Tensor) -> Array:
    """Gives the real values of a static tensor of any type."""
    return to_real(tensor.stored(), tensor.spec)


def _encoded(tensor: Tensor) -> Encoded:
    return Encoded(tensor.dtype, tensor.encoding, "")


def _store(tensor: Tensor, values: Floats) -> None:
    if tensor.encoding is None:
        tensor.data = pack(from_real(values, tensor.spec), tensor.dtype)
    else:
        tensor.data = pack(quantize(values, tensor.encoding, tensor.dtype), tensor.dtype)
