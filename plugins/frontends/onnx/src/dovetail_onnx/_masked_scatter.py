"""`x.masked_scatter(mask, values)`: written as a choice between elements.

PyTorch exports it as a ScatterND to the positions that NonZero finds, of as many values. Models of
images and text put the features of images into the embeddings of tokens so. The value of an element
is that at the number of masked elements before it, a running sum.
"""

from __future__ import annotations

from collections.abc import Iterator

from onnx import TensorProto

from dovetail.ir.patterns import either, op, value
from dovetail_onnx._masked_assignment import dims_in, positions_of, replaces
from dovetail_onnx._matching import Found, Replacement, SourceView, replace_matches
from dovetail_onnx._source import SourceGraph, SourceNode
from dovetail_onnx._tensors import TensorReader

# From here on, all operators of the replacement have their present forms.
_OPSET = 13

_RANGE = [value(name) for name in ("values", "start", "end", "axes")]
_SCATTERED = op(
    "ScatterND",
    value("data"),
    value("positions"),
    either(op("Slice", *_RANGE), op("Slice", *_RANGE, value("step"))),
    where=replaces,
)


def fuse_masked_scatters(source: SourceGraph, reader: TensorReader) -> SourceGraph:
    """Return the graph with every such assignment as a Where."""
    return replace_matches(source, reader, _SCATTERED, _chosen)


def _chosen(view: SourceView, match: Found) -> Iterator[SourceNode]:
    """Yield the nodes of a choice; none if the values are not taken in turn, from the first on."""
    found = match.values
    mask = positions_of(view, found["positions"])
    first = all(view.number(found[name]) == 0 for name in ("start", "axes"))
    step = "step" not in found or view.number(found["step"]) == 1
    if mask is None or not first or not step or not _counts(view, found["end"], found["positions"]):
        return
    if not _is_like(view, mask, found["data"]):
        return
    made = Replacement(view, match, _OPSET)
    flat = made.add("Reshape", mask, made.constant("flat", [1], [-1]))
    number = made.add("Cast", flat, to=TensorProto.INT64)
    total = made.add("CumSum", number, made.constant("axis", [], [0]))
    index = made.add("Sub", total, made.constant("one", [], [1]))
    # -1 for elements before the first masked one, which are not chosen
    index = made.add("Max", index, made.constant("zero", [], [0]))
    taken = made.add("Gather", found["values"], index, axis=0)
    shaped = made.add("Reshape", taken, made.add("Shape", found["data"]))
    yield from made.end("Where", mask, shaped, found["data"])


def _is_like(view: SourceView, mask: str, data: str) -> bool:
    """Return whether a mask is one of elements, not of slices: then values are too."""
    of_mask, whole = dims_in(view, mask), dims_in(view, data)
    if of_mask is not None and whole is not None:
        return len(of_mask) == len(whole)
    expanded = view.producer(mask)
    if expanded is None or expanded.full_type != "Expand":
        return False
    shape = view.producer(expanded.inputs[1])
    return shape is not None and shape.full_type == "Shape" and shape.inputs[0] == data


def _counts(view: SourceView, end: str, positions: str) -> bool:
    """Return whether a tensor is the number of positions."""
    maker = view.producer(end)
    if maker is not None and maker.full_type in ("Unsqueeze", "Reshape"):
        maker = view.producer(maker.inputs[0])
    if maker is None or maker.full_type != "Gather" or view.number(maker.inputs[1]) != 0:
        return False
    shape = view.producer(maker.inputs[0])
    return shape is not None and shape.full_type == "Shape" and shape.inputs[0] == positions
