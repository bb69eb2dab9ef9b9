"""Writing decisions into a graph: types, encodings, stored weights, and Convert nodes.

A tensor is stored as its producer writes it. A Convert is inserted for consumers with another
encoding; a static tensor is stored once for each encoding that its consumers need.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dovetail.ir import DType, Graph, Node, Spec, Tensor, add_like, pack, quantize
from dovetail_opset.build import add
from dovetail_quantizers.annotation.input_encodings import InputEncodings, as_float, input_encodings
from dovetail_quantizers.planning.decide import decide_result
from dovetail_quantizers.planning.encoding_decision import EncodingDecision
from dovetail_quantizers.planning.groups import Group
from dovetail_quantizers.planning.plan import Plan
from dovetail_quantizers.planning.recipe import float_type
from dovetail_quantizers.planning.rules import is_quantized
from dovetail_quantizers.planning.value_range import FLOAT16_MAX, values_of

Decisions = dict[Tensor, EncodingDecision]


def annotate(plan: Plan, decided: Mapping[Group, EncodingDecision]) -> Decisions:
    """Write a plan into its graph and return the decision on each tensor.

    Args:
        plan: The plan; its graph is changed.
        decided: Encodings of groups.
    """
    inputs = input_encodings(plan, decided)
    writer = _Writer(plan, decided, inputs)
    for tensor in list(plan.graph.tensors.values()):
        if not is_quantized(tensor):
            continue
        if tensor.kind.is_static:
            writer.write_static(tensor)
        else:
            writer.write_flowing(tensor)
    return writer.decisions


class _Writer:
    def __init__(
        self, plan: Plan, decided: Mapping[Group, EncodingDecision], inputs: InputEncodings
    ) -> None:
        self.decisions: Decisions = {}
        self._plan = plan
        self._graph: Graph = plan.graph
        self._decided = decided
        self._inputs = inputs
        # the inputs that read each tensor, with the encodings that they need
        self._readers: dict[Tensor, list[tuple[Node, int, EncodingDecision]]] = {}
        for (node, i), wanted in inputs.items():
            tensor = node.inputs[i]
            assert tensor is not None
            self._readers.setdefault(tensor, []).append((node, i, wanted))

    def write_static(self, tensor: Tensor) -> None:
        """Store a static tensor once for each encoding that its consumers need."""
        variants: dict[Spec, tuple[EncodingDecision, list[tuple[Node, int]]]] = {}
        for node, i, wanted in self._readers.get(tensor, ()):
            spec = Spec(wanted.dtype, tensor.shape, wanted.encoding)
            variants.setdefault(spec, (wanted, []))[1].append((node, i))
        values = values_of(tensor) if variants else np.zeros(0, np.float32)
        for number, (wanted, ports) in enumerate(variants.values()):
            if number == 0:
                made = tensor
            else:
                made = add_like(self._graph, tensor, tensor.name, kind=tensor.kind)
                self._redirect(tensor, made, ports)
            self._store(made, values, wanted)
            self.decisions[made] = wanted

    def write_flowing(self, tensor: Tensor) -> None:
        """Set the encoding of a tensor, and insert Converts for consumers with another one."""
        stored = self._stored(tensor)
        if stored is None:
            return
        shown = self._kept_float(tensor, stored)
        inner = tensor if shown is None else shown
        inner.dtype, inner.encoding = stored.dtype, stored.encoding
        self.decisions[tensor] = stored if shown is None else as_float(tensor.dtype, "an interface")
        copies: dict[Spec, list[tuple[Node, int]]] = {}
        for node, i, wanted in self._readers.get(tensor, ()):
            spec = Spec(wanted.dtype, tensor.shape, wanted.encoding)
            if spec != inner.spec:
                copies.setdefault(spec, []).append((node, i))
        for spec, ports in copies.items():
            # float consumers read the float input itself
            same = shown is not None and self._graph.is_input(tensor) and spec == tensor.spec
            made = tensor if same else self._converted(inner, spec, "Convert")
            self._redirect(inner, made, ports)

    def _stored(self, tensor: Tensor) -> EncodingDecision | None:
        """Return the decision of a tensor's producer; that of the consumers for an input."""
        producer = self._graph.producer(tensor)
        if producer is not None and producer in self._plan.floats:
            chosen = self._plan.floats[producer]
            return as_float(float_type(chosen.bitwidth), chosen.why)
        readers = self._readers.get(tensor, [])
        if tensor in self._plan.overrides.float_inputs:
            bitwidth = self._plan.overrides.float_inputs[tensor]
            return as_float(float_type(bitwidth), "the encodings file sets float")
        if producer is None:
            fixed = [wanted for _, _, wanted in readers if wanted.encoding is not None]
            if not fixed:
                return readers[0][2] if readers else None
        group = self._plan.groups.get(tensor)
        if group is None or group not in self._decided:
            return None
        shared = self._decided[group]
        if producer is None:
            return shared
        read = self._inputs.get((producer, 0))
        return decide_result(self._plan, producer, tensor, shared, read)

    def _kept_float(self, tensor: Tensor, stored: EncodingDecision) -> Tensor | None:
        """Return the inner tensor of an interface that stays float, None for other tensors."""
        if not self._plan.options.preserves(tensor.name) or stored.dtype is tensor.dtype:
            return None
        is_input = self._graph.is_input(tensor)
        if not (is_input or self._graph.is_output(tensor)):
            return None
        spec = Spec(stored.dtype, tensor.shape, stored.encoding)
        if is_input:
            readers = self._graph.consumers(tensor)
            made = self._converted(tensor, spec, "Convert" if spec.encoding is None else "Quantize")
            for node in readers:
                self._graph.replace_input(node, tensor, made)
            return made
        producer = self._graph.producer(tensor)
        assert producer is not None
        made = add_like(self._graph, tensor, f"{tensor.name}.fixed", spec)
        self._graph.replace_uses(tensor, made)
        self._graph.replace_output(producer, tensor, made)
        op_type = "Convert" if spec.encoding is None else "Dequantize"
        add(
            self._graph,
            op_type,
            [made],
            name=f"{tensor.name}.inner",
            outputs=tensor,
            sources=(),
        )
        return made

    def _converted(self, tensor: Tensor, spec: Spec, op_type: str) -> Tensor:
        name = f"{tensor.name}.{op_type.lower()}"  # see `converted_from`
        made = add_like(self._graph, tensor, name, spec)
        return add(self._graph, op_type, [tensor], name=name, outputs=made, sources=())

    def _redirect(self, old: Tensor, new: Tensor, ports: list[tuple[Node, int]]) -> None:
        for node, i in ports:
            inputs = [new if j == i and t is old else t for j, t in enumerate(node.inputs)]
            self._graph.set_inputs(node, inputs)

    def _store(self, tensor: Tensor, values: np.ndarray, wanted: EncodingDecision) -> None:
        """Store values in a static tensor, in a type and an encoding.

        As float16, finite numbers beyond its range become its largest, not infinity: masks multiply
        such numbers by 0, too.
        """
        tensor.dtype, tensor.encoding = wanted.dtype, wanted.encoding
        if wanted.dtype is DType.FLOAT_16:
            beyond = np.isfinite(values) & (np.abs(values) > FLOAT16_MAX)
            if beyond.any():
                values = np.where(beyond, np.copysign(FLOAT16_MAX, values), values)
                self._plan.notes.append(
                    f"{np.count_nonzero(beyond)} of {beyond.size} values of '{tensor.source}' are "
                    f"beyond float16, and became {FLOAT16_MAX:g} or {-FLOAT16_MAX:g}"
                )
        if wanted.encoding is not None:
            values = quantize(values, wanted.encoding, wanted.dtype)
        tensor.data = pack(values, wanted.dtype)
