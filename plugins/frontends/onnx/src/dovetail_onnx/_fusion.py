"""Operators that exporters spell out: the exact GELU, x / 2 * (1 + erf(x / sqrt(2))).

It is found here, before import, because there is no op for Erf alone. The tanh form is a different
function, up to 5e-4 away from it, and every part of it has an op: it is not fused.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from onnx import TensorProto, helper

from dovetail_onnx._attributes import Attributes
from dovetail_onnx._dtypes import DTYPES
from dovetail_onnx._source import SourceGraph, SourceNode
from dovetail_onnx._tensors import TensorReader

# Constants may have been rounded to bfloat16, which keeps 8 bits.
_NEAR = 2.0**-8
_GELU_OPSET = 20
_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
# A CastLike here is like x, which is a float.
_COMPUTED: dict[str, Callable[[float], float]] = {
    **dict.fromkeys(("Identity", "Cast", "CastLike"), float),
    "Sqrt": math.sqrt,
    "Reciprocal": lambda value: 1 / value,
}


def fuse_gelu(source: SourceGraph, reader: TensorReader) -> SourceGraph:
    """Return the graph with every GELU in small operators replaced by one Gelu node.

    The half and the root of two may multiply or divide, in any order and grouping, also inside:
    x * (0.5 + 0.5 * erf). Numbers may be computed from constants, as in the function that ONNX
    itself defines for Gelu. The scaled x and the erf must have no other readers.
    """
    if not any(node.op_type == "Erf" for node in source.nodes):
        return source
    matcher = _Matcher(source, reader)
    gone: set[str] = set()
    fused: dict[str, SourceNode] = {}
    for node in source.nodes:
        match = matcher.match(node) if (node.op_type, node.domain) == ("Erf", "") else None
        if match is not None and gone.isdisjoint(match.names):
            gone |= match.names
            fused[match.last.name] = _gelu(match)
    nodes = [fused.get(n.name, n) for n in source.nodes if n.name in fused or n.name not in gone]
    return replace(source, nodes=still_read(nodes, source))


def still_read(nodes: Iterable[SourceNode], source: SourceGraph) -> tuple[SourceNode, ...]:
    """Return the nodes without those, such as constants, that only removed nodes read."""
    before = {name for node in source.nodes for name in node.reads}
    needed, kept = set(source.outputs), []
    for node in reversed(tuple(nodes)):
        if needed.isdisjoint(node.outputs) and not before.isdisjoint(node.outputs):
            continue
        needed.update(node.reads)
        kept.append(node)
    return tuple(reversed(kept))


@dataclass(slots=True)
class _Match:
    x: str
    nodes: list[SourceNode] = field(default_factory=list)

    @property
    def last(self) -> SourceNode:
        return self.nodes[-1]

    @property
    def names(self) -> set[str]:
        return {node.name for node in self.nodes}


def _gelu(match: _Match) -> SourceNode:
    last = match.last
    return SourceNode(
        last.name,
        "Gelu",
        "",
        _GELU_OPSET,
        (match.x,),
        last.outputs,
        helper.make_node("Gelu", [match.x], list(last.outputs), name=last.name),
        tuple(node.name for node in match.nodes),
    )


# Number of inputs of each operator in the pattern; each has one output.
_INPUTS = {"Constant": 0, "Add": 2, "Sum": 2, "Mul": 2, "Div": 2, "CastLike": 2}


def _is_regular(node: SourceNode) -> bool:
    """Return whether a node has the required inputs and outputs, not checked before."""
    return len(node.outputs) == 1 and len(node.inputs) == _INPUTS.get(node.op_type, 1)


class _Matcher:
    def __init__(self, source: SourceGraph, reader: TensorReader) -> None:
        self._reader = reader
        self._initializers = source.initializers
        self._outputs = set(source.outputs)
        self._makers = {name: node for node in source.nodes for name in node.outputs}
        self._readers: dict[str, list[SourceNode]] = defaultdict(list)
        for node in source.nodes:
            for name in node.inputs:
                self._readers[name].append(node)

    def match(self, erf: SourceNode) -> _Match | None:
        """Return the nodes that form a GELU around an Erf, the last one last."""
        scale = self._makers.get(erf.inputs[0]) if _is_regular(erf) else None
        x = None if scale is None else self._times(scale, math.sqrt(0.5))
        if scale is None or x is None or self._only_reader(scale) is not erf:
            return None
        found, one, missing = _Match(x, [scale, erf]), 1.0, {"x", "half"}
        half = self._only_reader(erf)
        if half is not None and self._times(half, 0.5) == erf.outputs[0]:
            found.nodes.append(half)
            one, missing = 0.5, {"x"}
        add = self._only_reader(found.last)
        if add is None or not self._adds(add, found.last.outputs[0], one):
            return None
        found.nodes.append(add)
        return found if self._product(found, x, missing) else None

    def _product(self, found: _Match, x: str, missing: set[str]) -> bool:
        """Follow the multiplications by x and by a half, in any order and grouping."""
        while missing:
            step = self._only_reader(found.last)
            if step is None:
                return False
            missing_after = missing - self._factors(step, found, x)
            if missing_after == missing:
                return False
            missing = missing_after
            found.nodes.append(step)
        return True

    def _factors(self, step: SourceNode, found: _Match, x: str) -> set[str]:
        current = found.last.outputs[0]
        if self._times(step, 0.5) == current:
            return {"half"}
        if step.op_type != "Mul" or not _is_regular(step) or current not in step.inputs:
            return set()
        other = step.inputs[1 - step.inputs.index(current)]
        if other == x:
            return {"x"}
        half = self._makers.get(other)
        if half is not None and self._times(half, 0.5) == x and self._only_reader(half) is step:
            found.nodes.insert(0, half)
            return {"x", "half"}
        return set()

    def _times(self, node: SourceNode, factor: float) -> str | None:
        """Return the tensor that a node multiplies by a constant, or divides by its inverse."""
        if node.domain or node.op_type not in ("Div", "Mul") or not _is_regular(node):
            return None
        if node.op_type == "Div":
            return node.inputs[0] if self._is(node.inputs[1], 1 / factor) else None
        a, b = node.inputs
        return a if self._is(b, factor) else b if self._is(a, factor) else None

    def _adds(self, node: SourceNode, name: str, value: float) -> bool:
        """Return whether a node of two inputs adds a number to a tensor."""
        if node.op_type not in ("Add", "Sum") or node.domain or not _is_regular(node):
            return False
        return name in node.inputs and self._is(node.inputs[1 - node.inputs.index(name)], value)

    def _only_reader(self, node: SourceNode) -> SourceNode | None:
        name = node.outputs[0]
        readers = self._readers[name]
        return readers[0] if len(readers) == 1 and name not in self._outputs else None

    def _is(self, name: str, value: float) -> bool:
        found = self._scalar(name)
        return found is not None and math.isclose(found, value, rel_tol=_NEAR)

    def _scalar(self, name: str) -> float | None:
        """Return the number that a tensor holds, also one that is computed from constants."""
        maker = self._makers.get(name)
        if maker is None:
            return self._read(self._initializers.get(name), name)
        if maker.domain or not _is_regular(maker):
            return None
        if maker.op_type == "Constant":
            return self._constant(maker, name)
        if maker.op_type == "Cast" and not self._to_float(maker):
            return None
        compute = _COMPUTED.get(maker.op_type)
        known = None if compute is None else self._scalar(maker.inputs[0])
        if compute is None or known is None:
            return None
        try:
            return compute(known)
        except (ValueError, ZeroDivisionError):
            return None

    def _constant(self, maker: SourceNode, name: str) -> float | None:
        attributes = Attributes(maker.proto)
        if "value_float" in attributes:
            return attributes.number("value_float", 0.0)
        proto = attributes.tensor("value") if "value" in attributes else None
        return self._read(proto, name)

    def _to_float(self, cast: SourceNode) -> bool:
        return Attributes(cast.proto).integer("to", TensorProto.UNDEFINED) in _FLOATS

    def _read(self, proto: TensorProto | None, name: str) -> float | None:
        if proto is None or math.prod(proto.dims) != 1 or proto.data_type not in DTYPES:
            return None
        return float(self._reader.read(proto, name).values.reshape(()))
