"""Removal of pairs of Quantize and Dequantize from a graph, and the ops that replace them."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass

from dovetail.ir import Graph, Node, Spec, Tensor, TensorKind, add_like
from dovetail_opset.build import add
from dovetail_quantizers.planning.clipping import put_clip
from dovetail_quantizers.planning.encoding_decision import EncodingDecision
from dovetail_quantizers.planning.qdq_patterns import DequantizePoint


@dataclass(frozen=True, slots=True)
class Replacement:
    """The replacement of a pair.

    Attributes:
        encoded: The encoding after it.
        op_type: Relu, Relu6 or Convert; None if the pair is only removed.
        node: The node that quantizes, if a Convert is to have its name and sources.
    """

    encoded: EncodingDecision
    op_type: str | None
    node: Node | None


class PairRemoval:
    """The removal of pairs from one graph.

    What is recorded of a tensor moves to the tensor that replaces it.

    Args:
        graph: Changed.
        encodings: Extracted encodings of its tensors, which the caller adds.

    Attributes:
        own: Decisions on quantized tensors, before their pairs are removed.
        clipped: Encodings of tensors that need no clip: they stay within the grid.
    """

    def __init__(self, graph: Graph, encodings: MutableMapping[Tensor, EncodingDecision]) -> None:
        self.own: dict[Tensor, EncodingDecision | None] = {}
        self.clipped: dict[Tensor, EncodingDecision] = {}
        self._graph = graph
        self._encodings = encodings
        # outputs of clips and Converts, by their inputs and encodings
        self._replaced: dict[tuple[Tensor, EncodingDecision], Tensor] = {}
        # outputs of nodes that move real numbers as other nodes moved the integers
        self._moved: dict[tuple[Node, Tensor], tuple[Tensor, ...]] = {}

    def bypass(
        self, x: Tensor, end: DequantizePoint, replacement: Replacement
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

    def put_convert(self, x: Tensor, like: Node) -> None:
        """Put a Convert at a tensor with an encoding: before it, or after an input of the graph.

        Args:
            x: The tensor.
            like: The node whose name and sources the Convert gets.
        """
        graph, producer = self._graph, self._graph.producer(x)
        self._free_name(like)
        other = self._converted(x)
        self._encodings[other] = self._encodings[x]
        if producer is None:
            graph.replace_uses(x, other)
        else:
            graph.replace_output(producer, x, other)
        ends = (x, other) if producer is None else (other, x)
        add(graph, "Convert", ends[:1], name=like.name, outputs=ends[1], sources=like.sources)

    def _write_instead(self, x: Tensor, y: Tensor) -> None:
        """Redirect the producer of one tensor to write another."""
        producer = self._graph.producer(x)
        assert producer is not None
        self._graph.replace_uses(x, y)
        self._graph.replace_output(producer, x, y)
        self._remove(x, y)
        for known in (self._encodings, self.clipped):
            if x in known:
                known.setdefault(y, known.pop(x))

    def _replace(self, y: Tensor, by: Tensor) -> None:
        self._graph.replace_uses(y, by)
        self._remove(y, by)
        for known in (self._encodings, self.clipped):
            known.pop(y, None)  # the other tensor has its own

    def _remove(self, old: Tensor, new: Tensor) -> None:
        """Remove a tensor, which another one replaces in the inserted nodes."""
        self._graph.remove_tensor(old)

        def now(tensor: Tensor) -> Tensor:
            return new if tensor is old else tensor

        self.own = {now(x): own for x, own in self.own.items()}
        self._replaced = {(now(x), e): now(y) for (x, e), y in self._replaced.items()}
        self._moved = {
            (node, now(x)): tuple(map(now, made)) for (node, x), made in self._moved.items()
        }

    def _replace_pair(self, x: Tensor, replacement: Replacement) -> Tensor:
        key = x, replacement.encoded
        if key not in self._replaced:
            self._replaced[key] = self._put(x, replacement, None)
        return self._replaced[key]

    def _put(self, x: Tensor, replacement: Replacement, y: Tensor | None) -> Tensor:
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
