"""Extraction of the quantization in a model, as encodings of its tensors.

A model that was quantized in its framework contains pairs of Quantize and Dequantize, or the ops
that a frontend creates for them. They are removed; their numbers become the encoding of the tensor
before them. A Relu that they replaced is restored. Where several pairs quantize a tensor in
different ways, or an output of the graph repeats an input, a Convert replaces the pair.
"""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.ir import Graph, Node, Tensor, TensorKind
from dovetail.ops import OpRegistry
from dovetail_opset import is_op
from dovetail_opset.passes import DeadCode
from dovetail_quantizers.planning.clipping import clipper, clips_as
from dovetail_quantizers.planning.encoding_decision import EncodingDecision
from dovetail_quantizers.planning.interfaces import encoded_as, open_inputs, open_integers
from dovetail_quantizers.planning.overrides import GIVEN_BY_MODEL, Overrides, change_of
from dovetail_quantizers.planning.qdq_patterns import (
    DequantizePoint,
    QdqPattern,
    begins_quantizing,
    find_channels,
    find_pattern,
    integers_made,
    is_apart,
)
from dovetail_quantizers.planning.qdq_removal import PairRemoval, Replacement
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
    found = Overrides()
    removal = PairRemoval(graph, found.encodings)
    work = _Extraction(graph, ops, keeps_encodings, calibrates, found, removal)
    for node in graph.nodes:
        if graph.tensors.get(node.outputs[0].name) is not node.outputs[0]:
            continue
        pattern = find_pattern(graph, node)
        if pattern is None and not keeps_encodings:
            pattern = find_channels(graph, node)
        if pattern is not None and is_quantized(pattern.x):
            taken = work.extract(pattern, node)
            if keeps_nodes and taken is not None:
                removal.put_convert(taken, node)
    open_inputs(graph, found, work.extract_given)
    if found.changes:
        DeadCode().run(graph)  # the unused scales and zero points
    open_integers(graph, found, work.encoding_of)
    recover_encodings(graph, ops, found)
    take_stated(graph, found)
    _keep_rest(graph, found)
    return found


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
class _Extraction:
    """The extraction from one graph.

    Attributes:
        graph, ops, keeps_encodings, calibrates: As in `extract_qdq`.
        found: The extracted quantization.
        removal: Changes the graph.
    """

    graph: Graph
    ops: OpRegistry
    keeps_encodings: bool
    calibrates: bool
    found: Overrides
    removal: PairRemoval

    def extract(self, pattern: QdqPattern, node: Node | None = None) -> Tensor | None:
        """Remove all ops that dequantize the integers of a tensor.

        Args:
            pattern: The quantization of the tensor.
            node: The node that quantizes.

        Returns:
            The tensor or its replacement, or what a restored clip writes; None if no op is removed,
            or another encoding follows.
        """
        x = pattern.x
        if pattern.encoding is None:
            self._drop(pattern)
            return None
        encoded = EncodingDecision(pattern.dtype, pattern.encoding, pattern.why)
        repeated = any(self._is_repeated(x, end) for end in pattern.ends)
        if x not in self.removal.own:
            self.removal.own[x] = self.encoding_of(x, encoded, repeated=repeated)
        own = self.removal.own[x]
        clip = clipper(self.graph, x, encoded, self.ops, self.removal.clipped)
        op_type = None if self._clip_themselves(pattern.ends, clip) else clip
        shares = own is not None and is_same(own, encoded)
        if op_type is None and self.keeps_encodings and not shares:
            op_type = "Convert"
        taken = None
        for end in pattern.ends:
            inserted = "Convert" if op_type is None and self._is_repeated(x, end) else op_type
            kept = self.removal.bypass(x, end, Replacement(encoded, inserted, node))
            if not kept:
                continue
            x, *later = kept  # the name of an output may have replaced its name
            if own is not None:
                self._give(x, own)
            for tensor in later:
                self._give(tensor, encoded)
            if clip is None:
                clean = later if inserted else kept
                self.removal.clipped |= {t: encoded for t in clean if t not in self.removal.clipped}
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
        if x in self.removal.own and self.calibrates:
            return None  # pairs with other grids were removed
        grids, others = [encoded], []
        for node in self.graph.consumers(x):
            pair = find_pattern(self.graph, node)
            if pair is not None and pair.x is x and pair.encoding is not None:
                grids.append(EncodingDecision(pair.dtype, pair.encoding, GIVEN_BY_MODEL))
            elif not is_op(node, "Quantize"):
                others.append(node)
            elif (integers := integers_made(self.graph, node)) is not None:
                grids.append(encoded_as(node.outputs[0].spec, integers))
        is_output = x.kind is TensorKind.APP_READ
        if repeated and (is_output or others):
            return None
        if self.calibrates and not all(is_same(grid, encoded) for grid in grids):
            return None
        clips = [clipper(self.graph, x, grid, self.ops, self.removal.clipped) for grid in grids]
        if not all(clips):
            return spanning(grids)
        clip_too = (clips_as(node, clip, self.ops) for node in others for clip in clips if clip)
        return spanning(grids) if not is_output and all(clip_too) else None

    def _is_repeated(self, x: Tensor, end: DequantizePoint) -> bool:
        """Return whether an output of the graph repeats a quantized input or output."""
        if end.path or end.node.outputs[0].kind is TensorKind.NATIVE:
            return False
        return x.kind is not TensorKind.NATIVE or self.graph.producer(x) is None

    def _give(self, tensor: Tensor, encoded: EncodingDecision) -> None:
        self.found.encodings.setdefault(tensor, encoded)
        self.found.covered.add(tensor.source)

    def extract_given(self, pattern: QdqPattern, encoded: EncodingDecision) -> None:
        """Remove the ops that dequantize integers of the application, which clip nothing."""
        self.removal.clipped[pattern.x] = encoded
        self.extract(pattern)

    def _clip_themselves(self, ends: tuple[DequantizePoint, ...], clip: str | None) -> bool:
        """Return whether all consumers of dequantized tensors clip like the grid."""
        for end in ends:
            y = end.node.outputs[0]
            readers = self.graph.consumers(y)
            if clip is None or y.kind is not TensorKind.NATIVE:
                return False
            if not readers or not all(clips_as(node, clip, self.ops) for node in readers):
                return False
        return True

    def _drop(self, pattern: QdqPattern) -> None:
        """Remove quantization without a fixed grid, such as dynamic quantization."""
        x = pattern.x
        dropped = EncodingDecision(pattern.dtype, None, GIVEN_BY_MODEL)
        for end in pattern.ends:
            op_type = "Convert" if self._is_repeated(x, end) else None
            kept = self.removal.bypass(x, end, Replacement(dropped, op_type, None))
            if kept:
                x = kept[0]
                self.found.change(x, "dropped", pattern.why)

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
