"""Encodings of a file stated in a float model, which a later quantization uses."""

from __future__ import annotations

import numpy as np

from dovetail.container import Model
from dovetail.errors import ConfigError
from dovetail.ir import DType, Encoding, Graph, Spec, Tensor, copy_graph
from dovetail.ops import OpRegistry, check_ops
from dovetail.quantization import QuantizationOptions
from dovetail_opset.passes import SingleOps
from dovetail_quantizers.entries import check_entries
from dovetail_quantizers.files import EncodingsFile
from dovetail_quantizers.planning.overrides import Overrides, overrides_for, overrides_of


def with_stated_encodings(
    model: Model, options: QuantizationOptions, ops: OpRegistry
) -> tuple[Model, tuple[str, ...]]:
    """Return a float model that states the encodings of a file; see `Quantizer`."""
    file, _ = overrides_for(options, tuple(model.graphs.values()))
    if file is None:
        raise ConfigError("missing quantization_overrides, the file of the encodings", code="USAGE")
    notes = check_entries(file, model, options)
    graphs = []
    for graph in model.graphs.values():
        check_ops(graph, ops)
        work = copy_graph(graph)
        SingleOps().run(work)  # the ops whose facts and names decide what an entry describes
        found = overrides_of(file, work, ops, frozenset(t.source for t in graph.tensors.values()))
        made = copy_graph(graph)
        made.source_encodings |= {
            tensor.source: _in_source_layout(tensor, given.dtype, given.encoding)
            for tensor, given in found.encodings.items()
            if given.encoding is not None
        }
        notes += _left_out(found, file, made)
        graphs.append(made)
    return Model.of(*graphs, producer=model.producer, registry=ops), tuple(notes)


def _in_source_layout(tensor: Tensor, dtype: DType, encoding: Encoding) -> Spec:
    """Return an encoding of a tensor in the layout of the user's model."""
    shape, perm = tensor.shape, tensor.source_perm
    if perm is not None and len(perm) == len(shape):
        back = tuple(int(i) for i in np.argsort(perm))
        encoding, shape = encoding.transposed(back), tuple(shape[i] for i in back)
    return Spec(dtype, shape, encoding)


def _left_out(found: Overrides, file: EncodingsFile, graph: Graph) -> list[str]:
    """Return notes on what a model cannot state."""
    names = [t.source for t in found.widths]
    names += [t.source for node in found.floats for t in node.outputs]
    names += [t.source for t in found.float_inputs]
    notes = []
    if names:
        listed = ", ".join(f"'{name}'" for name in sorted(set(names)))
        notes.append(
            f"graph '{graph.name}': the model cannot state bitwidths and float tensors alone, so "
            f"these entries are left out: {listed}"
        )
    if file.bitwidths:
        notes.append(f"the model cannot state the file's {', '.join(file.bitwidths)}")
    if found.encodings and all(t.kind.is_static for t in found.encodings):
        notes.append(
            f"graph '{graph.name}': without encodings of activations, those of weights are used "
            "only if the weights are on their grids"
        )
    return notes
