"""Extraction of the quantization in a model, as encodings of its tensors.

A model that was quantized in its framework contains pairs of Quantize and Dequantize, or the ops
that a frontend creates for them. They are removed; their numbers become the encoding of the tensor
before them. A Relu that they replaced is restored.
"""

from __future__ import annotations

from dovetail.ir import Graph, Node, Spec, Tensor, TensorKind, add_like
from dovetail.ops import OpRegistry
from dovetail_opset.build import add
from dovetail_opset.passes import DeadCode
from dovetail_quantizers.planning.clipping import clipper, clips_as, put_clip
from dovetail_quantizers.planning.encoding_decision import EncodingDecision
from dovetail_quantizers.planning.interfaces import open_inputs, open_integers
from dovetail_quantizers.planning.overrides import GIVEN_BY_MODEL, Overrides
from dovetail_quantizers.planning.qdq_patterns import (
    DequantizePoint,
    QdqPattern,
    begins_quantizing,
    is_apart,
    quantizing_of,
)
from dovetail_quantizers.planning.rules import is_quantized
from dovetail_quantizers.planning.stored_weights import (
    describe_encoding,
    recover_encodings,
    take_stated,
)

_COMPUTED = "several scales, or other consumers of the integers"


def extract_qdq(graph: Graph, ops: OpRegistry, *, keeps_nodes: bool = False) -> Overrides:
    """Extract the quantization of a graph and return it as overrides.

    Args:
        graph: Changed: it computes the same without rounding, and with clipping only at zero.
        ops: Finds ops.
        keeps_nodes: Whether a Convert of the same encoding replaces each pair of activations.
    """
    work = _Extraction(graph, ops)
    for node in graph.nodes:
        if graph.tensors.get(node.outputs[0].name) is not node.outputs[0]:
            continue
        quantizing = quantizing_of(graph, node)
        if quantizing is not None and is_quantized(quantizing.x):
            taken = work.take(quantizing)
            if keeps_nodes and taken:
                work.put_convert(taken[0], node)
    open_inputs(graph, work.found, work.take_given)
    if work.found.changes:
        DeadCode().run(graph)  # the unused scales and zero points
    open_integers(graph, work.found)
    recover_encodings(graph, ops, work.found)
    take_stated(graph, work.found)
    _keep_rest(graph, work.found)
    return work.found


def _keep_rest(graph: Graph, found: Overrides) -> None:
    """Record the ops that still quantize or dequantize; their integers stay fixed-point."""
    kept: list[tuple[Tensor, str]] = []
    for node in graph.nodes:
        x, y = node.inputs[0] if node.inputs else None, node.outputs[0]
        if x is None or x.kind.is_static or y in found.interfaces:
            continue
        text = f"{node.where} stays: {_COMPUTED}"
        if is_apart(graph, y):
            found.interfaces.append(y)
            if x in graph.inputs and x.dtype.is_int:
                text = f"the application gives {x.dtype.name}, which ops dequantize"
        elif not begins_quantizing(graph, node):
            continue
        kept.append((x, text))
    if found.changes:
        for x, text in kept:
            found.change(x, "kept", text)


class _Extraction:
    """The extraction from one graph.

    Attributes:
        found: The extracted quantization.
    """

    def __init__(self, graph: Graph, ops: OpRegistry) -> None:
        self.found = Overrides()
        self._graph = graph
        self._ops = ops
        self._clipped: dict[Tensor, Tensor] = {}  # outputs of clips by their inputs
        self._moved: dict[tuple[Node, Tensor], tuple[Tensor, ...]] = {}
        self._given: dict[
            Tensor, EncodingDecision
        ] = {}  # of tensors that need no clip: they stay within the grid

    def take(self, quantizing: QdqPattern) -> tuple[Tensor, ...]:
        """Remove all ops that dequantize the integers of a tensor; return those with an encoding.

        The first is the tensor or its replacement; there is none if no op is removed.
        """
        x = quantizing.x
        if quantizing.encoding is None:
            self._drop(quantizing)
            return ()
        taken: tuple[Tensor, ...] = ()
        encoded = EncodingDecision(quantizing.dtype, quantizing.encoding, GIVEN_BY_MODEL)
        stands_for = clipper(self._graph, x, encoded, self._ops, self._given)
        clip = None if self._clip_themselves(quantizing.ends, stands_for) else stands_for
        for end in quantizing.ends:
            kept = self._bypass(x, end, clip)
            for tensor in kept:
                self.found.encodings.setdefault(tensor, encoded)
                self.found.covered.add(tensor.source)
                if stands_for is None:
                    self._given.setdefault(tensor, encoded)
            if kept:
                self._tell(kept[0], encoded, clip)
                x = kept[0]  # the name of an output may have replaced its name
                taken = kept
        return taken

    def put_convert(self, x: Tensor, like: Node) -> None:
        """Put a Convert at a tensor with an encoding: before it, or after an input of the graph.

        Args:
            x: The tensor.
            like: The node whose name and sources the Convert gets.
        """
        graph, producer = self._graph, self._graph.producer(x)
        if not any(graph.consumers(t) for t in like.outputs):
            graph.remove_node(like)  # its name is free then
            for unused in like.outputs:
                graph.remove_tensor(unused)
        other = add_like(graph, x, f"{x.name}.converted")
        self.found.encodings[other] = self.found.encodings[x]
        if producer is None:
            graph.replace_uses(x, other)
        else:
            graph.set_outputs(producer, [other if t is x else t for t in producer.outputs])
        ends = (x, other) if producer is None else (other, x)
        add(graph, "Convert", ends[:1], name=like.name, outputs=ends[1], sources=like.sources)

    def take_given(self, quantizing: QdqPattern, encoded: EncodingDecision) -> None:
        """Do the same for integers of the application, which clip nothing."""
        self._given[quantizing.x] = encoded
        self.take(quantizing)

    def _clip_themselves(self, ends: tuple[DequantizePoint, ...], clip: str | None) -> bool:
        """Return whether all consumers of dequantized tensors clip like the grid."""
        for end in ends:
            y = end.node.outputs[0]
            readers = self._graph.consumers(y)
            if clip is None or y.kind is not TensorKind.NATIVE:
                return False
            if not readers or not all(clips_as(node, clip, self._ops) for node in readers):
                return False
        return True

    def _drop(self, quantizing: QdqPattern) -> None:
        """Remove dynamic quantization: it has no fixed grid."""
        x = quantizing.x
        for end in quantizing.ends:
            kept = self._bypass(x, end, None)
            if kept:
                x = kept[0]
                self.found.change(x, "dropped", "the range is computed at run time, for each input")

    def _tell(self, tensor: Tensor, encoded: EncodingDecision, clip: str | None) -> None:
        assert encoded.encoding is not None
        self.found.change(tensor, "encoding", describe_encoding(encoded.dtype, encoded.encoding))
        if clip is not None:
            text = f"{clip} restored, because the grid after it starts at 0"
            self.found.change(tensor, "clip", text)

    def _bypass(self, x: Tensor, end: DequantizePoint, clip: str | None) -> tuple[Tensor, ...]:
        """Remove a dequantization; insert a clip if the grid replaced one.

        Args:
            x: The quantized tensor.
            end: The point of the dequantization.
            clip: The op of the clip.

        Returns:
            The remaining tensors with the encoding, first `x` or its replacement; none if the
            dequantization must stay.
        """
        graph, y = self._graph, end.node.outputs[0]
        if y.dtype is not x.dtype or (not end.path and y.shape != x.shape):
            return ()
        outer = y.kind is not TensorKind.NATIVE
        stays = x.kind is not TensorKind.NATIVE or graph.producer(x) is None
        if outer and stays and clip is None and not end.path:
            return ()
        graph.remove_node(end.node)
        if end.path:
            source = x if clip is None else self._clip(x, clip)
            made = self._move(source, end.path, y)
            return (x, made) if clip is None else (x, source, made)
        if clip is not None:
            if outer:
                return x, put_clip(graph, x, clip, y)
            made = self._clip(x, clip)
            self._replace(y, made)
            return x, made
        if outer:
            self._write_instead(x, y)
            return (y,)
        self._replace(y, x)
        return (x,)

    def _write_instead(self, x: Tensor, y: Tensor) -> None:
        """Redirect the producer of one tensor to write another."""
        producer = self._graph.producer(x)
        assert producer is not None
        self._graph.replace_uses(x, y)
        self._graph.set_outputs(producer, [y if t is x else t for t in producer.outputs])
        self._remove(x, y)
        for known in (self.found.encodings, self._given):
            if x in known:
                known.setdefault(y, known.pop(x))

    def _replace(self, y: Tensor, by: Tensor) -> None:
        self._graph.replace_uses(y, by)
        self._remove(y, by)
        for known in (self.found.encodings, self._given):
            known.pop(y, None)  # the other tensor has its own

    def _remove(self, old: Tensor, new: Tensor) -> None:
        """Remove a tensor, which another one replaces in the inserted nodes."""
        self._graph.remove_tensor(old)

        def now(tensor: Tensor) -> Tensor:
            return new if tensor is old else tensor

        self._clipped = {now(x): now(y) for x, y in self._clipped.items()}
        self._moved = {
            (node, now(x)): tuple(map(now, made)) for (node, x), made in self._moved.items()
        }

    def _clip(self, x: Tensor, clip: str) -> Tensor:
        if x not in self._clipped:
            self._clipped[x] = put_clip(self._graph, x, clip, None)
        return self._clipped[x]

    def _move(self, x: Tensor, path: tuple[Tensor, ...], y: Tensor) -> Tensor:
        """Move real numbers as nodes moved their integers, up to a tensor."""
        *inner, last = path
        for moved in inner:
            x = self._moved_to(x, moved)
        end = self._moved_to(x, last)
        if y.kind is TensorKind.NATIVE:
            self._replace(y, end)
            return end
        if end.kind is not TensorKind.NATIVE:  # it is another output of the same values
            end = self._moved_to(x, last, again=True)
        self._write_instead(end, y)
        return y

    def _moved_to(self, x: Tensor, moved: Tensor, *, again: bool = False) -> Tensor:
        """Return real numbers after the node that moved their integers to a tensor."""
        node = self._graph.producer(moved)
        assert node is not None
        if again or (node, x) not in self._moved:
            self._moved[node, x] = self._repeat(node, x)
        return self._moved[node, x][node.outputs.index(moved)]

    def _repeat(self, node: Node, x: Tensor) -> tuple[Tensor, ...]:
        """Add a copy of a node that moves real numbers instead of integers; return its outputs."""
        graph = self._graph
        made = tuple(
            add_like(graph, t, f"{t.name}.real", Spec(x.dtype, t.shape)) for t in node.outputs
        )
        name = graph.fresh_name(f"{node.name}.real")
        graph.add_node(node.with_tensors([x, *node.inputs[1:]], made, name=name))
        return made
