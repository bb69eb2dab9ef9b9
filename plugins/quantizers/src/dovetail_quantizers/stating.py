"""Encodings stated in a float model, which a later quantization uses."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.container import Model
from dovetail.errors import counted
from dovetail.ir import DType, Graph, Spec, Tensor, copy_graph
from dovetail.ops import OpRegistry, check_ops
from dovetail.quantization import QuantizationOptions
from dovetail_opset import is_op
from dovetail_opset.passes import SingleOps
from dovetail_opset.perms import to_source
from dovetail_quantizers.entries import check_entries
from dovetail_quantizers.files import EncodingsFile
from dovetail_quantizers.planning.overrides import Overrides, overrides_for, overrides_of
from dovetail_quantizers.planning.qdq_extraction import extract_qdq
from dovetail_quantizers.planning.rules import is_quantized


def with_stated_encodings(
    model: Model, options: QuantizationOptions, ops: OpRegistry
) -> tuple[Model, tuple[str, ...]]:
    """Return a float model that states encodings; see `Quantizer`."""
    given = tuple(model.graphs.values())
    file, _ = overrides_for(options, given)
    notes = [] if file is None else check_entries(file, given, options)
    graphs = []
    for graph in given:
        check_ops(graph, ops)
        made = copy_graph(graph)
        own = _extracted(made, options, ops, notes)
        work = copy_graph(made)
        found = own.in_copy(work)
        SingleOps().run(work)  # the ops whose facts and names decide what an entry describes
        if file is not None:
            known = frozenset(t.source for t in graph.tensors.values())
            found = found.under(overrides_of(file, work, ops, known))
        said = _statements(found, work)
        made.source_encodings |= {
            tensor.source: _in_source_layout(tensor, spec) for tensor, spec in said.items()
        }
        notes += _left_out(said, file, made)
        graphs.append(made)
    return Model.of(*graphs, producer=model.producer, registry=ops), tuple(notes)


def _extracted(
    graph: Graph, options: QuantizationOptions, ops: OpRegistry, notes: list[str]
) -> Overrides:
    """Remove the nodes of a graph that quantize, and return their encodings; add a note."""
    quantizing = [node for node in graph.nodes if is_op(node, "Quantize")]
    if options.keep_quant_nodes or not quantizing:
        return Overrides()
    SingleOps().run(graph)
    found = extract_qdq(graph, ops, keeps_encodings=False)
    left = {node.name for node in graph.nodes}
    removed = sum(node.name not in left for node in quantizing)
    if not removed:  # those of a quantized output stay
        return found
    count = counted(removed, "node")
    if options.ignore_encodings:
        notes.append(f"graph '{graph.name}': {count} that quantize removed")
        return Overrides()
    notes.append(f"graph '{graph.name}': {count} that quantize became encodings for `quantize`")
    return found


def _statements(found: Overrides, graph: Graph) -> dict[Tensor, Spec]:
    """Return the types and encodings to state; without an encoding see `Graph`."""
    said = {
        tensor: Spec(given.dtype, tensor.shape, given.encoding)
        for tensor, given in found.encodings.items()
        if given.encoding is not None
    }
    widths = {t: DType.fixed(bits, signed=False) for t, bits in found.widths.items()}
    floats = {t: _float_type(bits) for t, bits in found.float_inputs.items()}
    for node, chosen in found.floats.items():
        # one of its tensors states it, whose encoding is not stated
        constants = [
            t
            for t in node.inputs
            if t is not None
            and t.kind.is_static
            and is_quantized(t)
            and found.floats.keys() >= set(graph.consumers(t))
        ]
        free = (t for t in (*node.outputs, *constants) if t not in said and t not in widths)
        tensor = next(free, None) or node.outputs[0]
        said.pop(tensor, None)
        floats[tensor] = _float_type(chosen.bitwidth)
    return said | {t: Spec(dtype, t.shape) for t, dtype in (widths | floats).items()}


def _float_type(bitwidth: int) -> DType:
    return DType.FLOAT_16 if bitwidth == 16 else DType.FLOAT_32


def _in_source_layout(tensor: Tensor, spec: Spec) -> Spec:
    """Return the type and encoding of a tensor in the layout of the user's model."""
    back = to_source(tensor)
    encoding = None if spec.encoding is None else spec.encoding.transposed(back)
    return Spec(spec.dtype, tuple(tensor.shape[i] for i in back), encoding)


def _left_out(said: Mapping[Tensor, Spec], file: EncodingsFile | None, graph: Graph) -> list[str]:
    """Return notes on what a model cannot state, and on what has no effect."""
    notes = []
    if file is not None and file.bitwidths:
        notes.append(f"the model cannot state the file's {', '.join(file.bitwidths)}")
    given = [tensor for tensor, spec in said.items() if spec.encoding is not None]
    if given and all(tensor.kind.is_static for tensor in said):
        notes.append(
            f"graph '{graph.name}': without encodings of activations, those of weights are used "
            "only if the weights are on their grids"
        )
    return notes
