"""Extraction of the quantization in a model, as encodings of its tensors.

A model that was quantized in its framework contains pairs of Quantize and Dequantize, or the ops
that a frontend creates for them. They are removed; their numbers become the encoding of the tensor
before them. A Relu that they replaced is restored. Where several pairs quantize a tensor in
different ways, or an output of the graph repeats an input, a Convert replaces the pair.
"""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.ir import Graph, Node, Spec, Tensor, TensorKind, add_like
from dovetail.ops import OpRegistry
from dovetail_opset import is_op
from dovetail_opset.build import add
from dovetail_opset.passes import DeadCode
from dovetail_quantizers.planning.clipping import clipper, clips_as, put_clip
from dovetail_quantizers.planning.encoding_decision import EncodingDecision
from dovetail_quantizers.planning.interfaces import encoded_as, open_inputs, open_integers
from dovetail_quantizers.planning.overrides import GIVEN_BY_MODEL, Overrides, change_of
from dovetail_quantizers.planning.qdq_patterns import (
    DequantizePoint,
    QdqPattern,
    begins_quantizing,
    integers_made,
    is_apart,
    quantizing_of,
)
from dovetail_quantizers.planning.rules import is_quantized
from dovetail_quantizers.planning.spanning import is_same, spanning
from dovetail_quantizers.planning.stored_weights import (
    describe_encoding,
    recover_encodings,
    take_stated,
)

_COMPUTED = "several scales, or other consumers of the integers"


def extract_qdq(
    graph: Graph,
    ops: OpRegistry,
    *,
    keeps_nodes: bool = False,
    keeps_encodings: bool = True,
    calibrates: bool = False,
) -> Overrides:
    """Extract the quantization of a graph and return it as overrides.

    Args:
        graph: Changed: it computes the same without rounding, and with clipping only at zero.
        ops: Finds ops.
        keeps_nodes: Whether a Convert of the same encoding replaces each pair of activations.
        keeps_encodings: Whether a Convert replaces a pair with another encoding than its tensor.
        calibrates: Whether ranges are observed, also of tensors that are quantized in several ways.
    """
    work = _Extraction(graph, ops, keeps_encodings, calibrates)
    for node in graph.nodes:
        if graph.tensors.get(node.outputs[0].name) is not node.outputs[0]:
            continue
        quantizing = quantizing_of(graph, node)
        if quantizing is not None and is_quantized(quantizing.x):
            taken = work.take(quantizing, node)
            if keeps_nodes and taken is not None:
                work.put_convert(taken, node)
    open_inputs(graph, work.found, work.take_given)
    if work.found.changes:
        DeadCode().run(graph)  # the unused scales and zero points
    open_integers(graph, work.found, work.encoding_of)
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


@dataclass(frozen=True, slots=True)
class _Replacement:
    """The replacement of a pair.

    Attributes:
        encoded: The encoding after it.
        op_type: Relu, Relu6 or Convert; None if the pair is only removed.
        node: The node that quantizes, if a Convert is to have its name and sources.
    """

    encoded: EncodingDecision
    op_type: str | None
    node: Node | None


class _Extraction:
    """The extraction from one graph.

    Attributes:
        found: The extracted quantization.
    """

    def __init__(
        self, graph: Graph, ops: OpRegistry, keeps_encodings: bool, calibrates: bool
    ) -> None:
        self.found = Overrides()
        self._graph = graph
        self._ops = ops
        self._keeps_encodings = keeps_encodings
        self._calibrates = calibrates
        # decisions on quantized tensors, before their pairs are removed
        self._own: dict[Tensor, EncodingDecision | None] = {}
        # outputs of clips and Converts, by their inputs and encodings
        self._replaced: dict[tuple[Tensor, EncodingDecision], Tensor] = {}
        self._moved: dict[tuple[Node, Tensor], tuple[Tensor, ...]] = {}
        # encodings of tensors that need no clip: they stay within the grid
        self._given: dict[Tensor, EncodingDecision] = {}

    def take(self, quantizing: QdqPattern, node: Node | None = None) -> Tensor | None:
        """Remove all ops that dequantize the integers of a tensor.

        Args:
            quantizing: The quantization of the tensor.
            node: The node that quantizes.

        Returns:
            The tensor or its replacement, or what a restored clip writes; None if no op is removed,
            or another encoding follows.
        """
        x = quantizing.x
        if quantizing.encoding is None:
            self._drop(quantizing)
            return None
        encoded = EncodingDecision(quantizing.dtype, quantizing.encoding, quantizing.why)
        repeated = any(self._is_repeated(x, end) for end in quantizing.ends)
        if x not in self._own:
            self._own[x] = self.encoding_of(x, encoded, repeated=repeated)
        own = self._own[x]
        clip = clipper(self._graph, x, encoded, self._ops, self._given)
        op_type = None if self._clip_themselves(quantizing.ends, clip) else clip
        shares = own is not None and is_same(own, encoded)
        if op_type is None and self._keeps_encodings and not shares:
            op_type = "Convert"
        taken = None
        for end in quantizing.ends:
            inserted = "Convert" if op_type is None and self._is_repeated(x, end) else op_type
            kept = self._bypass(x, end, _Replacement(encoded, inserted, node))
            if not kept:
                continue
            x, *later = kept  # the name of an output may have replaced its name
            if own is not None:
                self._give(x, own)
            for tensor in later:
                self._give(tensor, encoded)
            if clip is None:
                clean = later if inserted else kept
                self._given |= {t: encoded for t in clean if t not in self._given}
            self._record(later[0] if inserted == "Convert" else x, encoded, inserted)
            if shares and inserted != "Convert":
                taken = later[0] if inserted else x
        return taken

    def encoding_of(
        self, x: Tensor, encoded: EncodingDecision, *, repeated: bool = False
    ) -> EncodingDecision | None:
        """Return the encoding of a quantized tensor; None if its range is to be observed.

        Args:
            x: The tensor. Other consumers read it, too, and perhaps other pairs.
            encoded: The encoding of one pair, or of integers that are not dequantized.
            repeated: Whether an output of the graph repeats the tensor.
        """
        if x in self.found.encodings:
            return self.found.encodings[x]
        if x in self._own and self._calibrates:
            return None  # pairs with other grids were removed
        grids, others = [encoded], []
        for node in self._graph.consumers(x):
            pair = quantizing_of(self._graph, node)
            if pair is not None and pair.x is x and pair.encoding is not None:
                grids.append(EncodingDecision(pair.dtype, pair.encoding, GIVEN_BY_MODEL))
            elif not is_op(node, "Quantize"):
                others.append(node)
            elif (integers := integers_made(self._graph, node)) is not None:
                grids.append(encoded_as(node.outputs[0].spec, integers))
        is_output = x.kind is TensorKind.APP_READ
        if repeated and (is_output or others):
            return None
        if self._calibrates and not all(is_same(grid, encoded) for grid in grids):
            return None
        clips = [clipper(self._graph, x, grid, self._ops, self._given) for grid in grids]
        if not all(clips):
            return spanning(grids)
        clip_too = (clips_as(node, clip, self._ops) for node in others for clip in clips if clip)
        return spanning(grids) if not is_output and all(clip_too) else None

    def _is_repeated(self, x: Tensor, end: DequantizePoint) -> bool:
        """Return whether an output of the graph repeats a quantized input or output."""
        if end.path or end.node.outputs[0].kind is TensorKind.NATIVE:
            return False
        return x.kind is not TensorKind.NATIVE or self._graph.producer(x) is None

    def _give(self, tensor: Tensor, encoded: EncodingDecision) -> None:
        self.found.encodings.setdefault(tensor, encoded)
        self.found.covered.add(tensor.source)

    def put_convert(self, x: Tensor, like: Node) -> None:
        """Put a Convert at a tensor with an encoding: before it, or after an input of the graph.

        Args:
            x: The tensor.
            like: The node whose name and sources the Convert gets.
        """
        graph, producer = self._graph, self._graph.producer(x)
        self._free_name(like)
        other = self._converted(x)
        self.found.encodings[other] = self.found.encodings[x]
        if producer is None:
            graph.replace_uses(x, other)
        else:
            graph.replace_output(producer, x, other)
        ends = (x, other) if producer is None else (other, x)
        add(graph, "Convert", ends[:1], name=like.name, outputs=ends[1], sources=like.sources)

    def _free_name(self, node: Node) -> None:
        """Remove a node if nothing reads it, so that another one can have its name."""
        is_removed = self._graph.producer(node.outputs[0]) is not node
        if not is_removed and not any(self._graph.consumers(t) for t in node.outputs):
            self._graph.remove_node(node)
            for unused in node.outputs:
                self._graph.remove_tensor(unused)

    def _converted(self, x: Tensor) -> Tensor:
        """Add a tensor for the other end of a Convert."""
        return add_like(self._graph, x, f"{x.name}.converted")

    def take_given(self, quantizing: QdqPattern, encoded: EncodingDecision) -> None:
        """Remove the ops that dequantize integers of the application, which clip nothing."""
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
        dropped = EncodingDecision(quantizing.dtype, None, GIVEN_BY_MODEL)
        for end in quantizing.ends:
            op_type = "Convert" if self._is_repeated(x, end) else None
            kept = self._bypass(x, end, _Replacement(dropped, op_type, None))
            if kept:
                x = kept[0]
                self.found.change(x, "dropped", "the range is computed at run time, for each input")

    def _record(self, tensor: Tensor, encoded: EncodingDecision, op_type: str | None) -> None:
        assert encoded.encoding is not None
        text = describe_encoding(encoded.dtype, encoded.encoding)
        self.found.change(tensor, change_of(encoded), text)
        if op_type == "Convert":
            text = "a Convert stays: its input has another encoding, or is an input or output"
            self.found.change(tensor, "convert", text)
        elif op_type is not None:
            text = f"{op_type} restored, because the grid after it starts at 0"
            self.found.change(tensor, "clip", text)

    def _bypass(
        self, x: Tensor, end: DequantizePoint, replacement: _Replacement
    ) -> tuple[Tensor, ...]:
        """Remove a dequantization; insert the op that replaces the pair.

        Args:
            x: The quantized tensor.
            end: The point of the dequantization.
            replacement: The op.

        Returns:
            First `x` or its replacement, then the tensors after an inserted op or moves; none if
            the dequantization must stay.
        """
        graph, y = self._graph, end.node.outputs[0]
        if y.dtype is not x.dtype or (not end.path and y.shape != x.shape):
            return ()
        outer, inserts = y.kind is not TensorKind.NATIVE, replacement.op_type is not None
        graph.remove_node(end.node)
        if end.path:
            source = self._replace_pair(x, replacement) if inserts else x
            made = self._move(source, end.path, y)
            return (x, source, made) if inserts else (x, made)
        if inserts and outer:
            return x, self._put(x, replacement, y)
        if inserts:
            made = self._replace_pair(x, replacement)
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
        self._graph.replace_output(producer, x, y)
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

        self._own = {now(x): own for x, own in self._own.items()}
        self._replaced = {(now(x), e): now(y) for (x, e), y in self._replaced.items()}
        self._moved = {
            (node, now(x)): tuple(map(now, made)) for (node, x), made in self._moved.items()
        }

    def _replace_pair(self, x: Tensor, replacement: _Replacement) -> Tensor:
        key = x, replacement.encoded
        if key not in self._replaced:
            self._replaced[key] = self._put(x, replacement, None)
        return self._replaced[key]

    def _put(self, x: Tensor, replacement: _Replacement, y: Tensor | None) -> Tensor:
        """Insert the op that replaces a pair, and return its output: a tensor of the graph or new.

        Args:
            x: The input.
            replacement: The op.
            y: The output; None creates one.
        """
        op_type, node = replacement.op_type, replacement.node
        if op_type is not None and op_type != "Convert":
            return put_clip(self._graph, x, op_type, y)
        if node is not None:
            self._free_name(node)
        return add(
            self._graph,
            "Convert",
            [x],
            name=f"{x.name}.convert" if node is None else node.name,
            outputs=self._converted(x) if y is None else y,
            sources=() if node is None else node.sources,
        )

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
