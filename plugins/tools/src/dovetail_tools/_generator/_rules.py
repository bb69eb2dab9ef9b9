"""`infer` of a generated class: ranks, and shapes that are lists of terms, as code."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dovetail_tools._generator._helpers import HELPERS
from dovetail_tools._generator._imports import TAKEN
from dovetail_tools._generator._layout import Part, array, call, laid_out, sequence
from dovetail_tools._generator._names import fresh, variable
from dovetail_tools._generator._text import WIDTH, width
from dovetail_tools.op_definitions import OpDefinition, Tensor

_LONGEST_TERM = 60
_BODY = " " * 8  # of a method
_STEP = " " * 4
_OWN = ("ins", "outs", "found", "spec", *HELPERS)


@dataclass(frozen=True, slots=True)
class Signature:
    """The names of arguments in a generated class's methods.

    Attributes:
        is_long: Whether the methods have sequences as arguments, for ops with repeated tensors.
        inputs, outputs: Names of the tensors, in order.
    """

    is_long: bool
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @classmethod
    def of(cls, op: OpDefinition) -> Signature:
        """Return the names for an op."""
        taken = {*TAKEN, *_OWN}
        inputs = tuple(variable(tensor.name, taken) for tensor in op.inputs)
        outputs = tuple(variable(tensor.name, taken) for tensor in op.outputs)
        return cls(any(t.is_repeated for t in (*op.inputs, *op.outputs)), inputs, outputs)


def infer_lines(op: OpDefinition, signature: Signature) -> list[str]:
    """Return the method."""
    return _Rules(op, signature).lines()


class _Rules:
    def __init__(self, op: OpDefinition, signature: Signature) -> None:
        self._op = op
        self._names = signature
        self._extents = _extents(op, signature)

    def lines(self) -> list[str]:
        self._used = {name for t in self._op.outputs for name in self._free(t)}
        body = [*self._ranks(), *self._unpacked(), *self._result()]
        return [*self._head(), *(f"{_BODY}{line}" for line in body)]

    def _head(self) -> list[str]:
        items: list[Part] = ["self"]
        if self._names.is_long:
            items += ["ins: Specs", "outs: Specs"]
        else:
            items += _typed(self._op.inputs, self._names.inputs)
            items += [f"{name}: Spec | None" for name in self._names.outputs]
        result = "Spec" if self._is_single else "list[Spec]"
        return laid_out(call("def infer", *items), "    ", after=f" -> {result}:")

    @property
    def _is_single(self) -> bool:
        op = self._op
        return len(op.outputs) == 1 and not self._names.is_long and not self._may_lack(0)

    # -- checks of the inputs --------------------------------------------------------------------

    def _ranks(self) -> Iterator[str]:
        for i, (tensor, name) in enumerate(zip(self._op.inputs, self._names.inputs, strict=True)):
            rank = None if tensor.shape is None else tensor.shape.rank
            port = f"self.inputs[{i}]"
            if tensor.is_repeated:
                if tensor.is_mandatory and not self._learns_from(i):
                    yield f"_given({port}, ins, {i})"
                if rank is not None:
                    yield f"for spec in {_rest('ins', i)}:"
                    yield f"    _need_rank({port}, spec, {rank})"
            elif rank is not None:
                given = f"_at(ins, {i})" if self._names.is_long else name
                yield f"_need_rank({port}, {given}, {rank})"

    def _learns_from(self, i: int) -> bool:
        return any(e.input == i and e.name in self._used for e in self._extents.values())

    def _unpacked(self) -> Iterator[str]:
        for i, (tensor, name) in enumerate(zip(self._op.inputs, self._names.inputs, strict=True)):
            if not self._learns_from(i):
                continue
            assert tensor.shape is not None  # its dimensions have names
            places = ["_"] * (tensor.shape.rank or 0)
            for extent in self._extents.values():
                if extent.input == i and extent.name in self._used:
                    places[extent.axis] = extent.variable
            given = f"_given(self.inputs[{i}], ins, {i})" if self._names.is_long else name
            line = f"{', '.join(places)} = {given}.shape"
            if len(places) > 1 and len(_BODY) + width(line) <= WIDTH:
                yield line
            else:
                yield from _in_body(sequence(*places), after=f" = {given}.shape")

    # -- outputs ---------------------------------------------------------------------------------

    def _result(self) -> list[str]:
        outputs = self._op.outputs
        made = [self._output(i) for i in range(len(outputs))]
        if self._is_single:
            return _in_body(made[0], before="return ")
        sure = [i for i, t in enumerate(outputs) if not t.is_repeated and not self._may_lack(i)]
        rest = [i for i in range(len(outputs)) if i not in sure]
        listed = array(*[made[i] for i in sure])
        if not rest:
            return _in_body(listed, before="return ")
        lines = _in_body(listed, before="found = ") if sure else ["found: list[Spec] = []"]
        depth = 0
        for i in rest:
            lines += self._more(i, made[i], depth)
            # nested: after a missing output there are none
            depth += 0 if outputs[i].is_repeated else 1
        return [*lines, "return found"]

    def _more(self, i: int, made: Part, depth: int) -> list[str]:
        """Lines that add an output that may be repeated or missing."""
        tensor, name = self._op.outputs[i], self._names.outputs[i]
        lines = []
        if tensor.is_repeated:
            each = _rest("outs", i) if self._may_lack(i) else f"{_rest('outs', i)} or [None]"
            lines = [f"for {name} in {each}:"]
        elif self._names.is_long:
            lines = [f"{name} = _at(outs, {i})", f"if {name} is not None:"]
        else:
            lines = [f"if {name} is not None:"]
        added = _in_body(call("found.append", made), depth + 1)
        return [*(f"{_STEP * depth}{line}" for line in lines), *added]

    def _output(self, i: int) -> Part:
        tensor = self._op.outputs[i]
        named = self._names.is_long and not tensor.is_repeated and not self._may_lack(i)
        given = f"_at(outs, {i})" if named else self._names.outputs[i]
        port = f"self.outputs[{i}]"
        terms = self._terms(tensor)
        if terms is not None:
            return call("_output", port, given, sequence(*terms), self._likes())
        rank = None if tensor.shape is None else tensor.shape.rank
        return call("_declared", port, given, *([] if rank is None else [str(rank)]))

    def _likes(self) -> Part:
        """Return the inputs of which the first present one has the type of an output."""
        if self._names.is_long:
            return "ins"
        found = []
        for tensor, name in zip(self._op.inputs, self._names.inputs, strict=True):
            found.append(name)
            if tensor.is_mandatory:
                break
        return sequence(*found)

    def _may_lack(self, i: int) -> bool:
        """Return whether this and all later outputs are optional and of unknown shape."""
        return all(not t.is_mandatory and self._terms(t) is None for t in self._op.outputs[i:])

    # -- terms -----------------------------------------------------------------------------------

    def _free(self, tensor: Tensor) -> Iterator[str]:
        if self._terms(tensor) is not None and tensor.shape is not None and tensor.shape.dims:
            yield from tensor.shape.dims.wanted

    def _terms(self, tensor: Tensor) -> list[str] | None:
        """Return the dimensions of an output as code; None if the definition has none."""
        rule = tensor.shape
        if rule is None:
            return None
        if rule.dims is None:
            return [] if rule.rank == 0 else None
        if not rule.dims.wanted <= self._extents.keys():
            return None
        renamed = {name: extent.variable for name, extent in self._extents.items()}
        found = [ast.unparse(_Coded(renamed).visit(copy.deepcopy(t))) for t in rule.dims.terms]
        return None if any(len(term) > _LONGEST_TERM for term in found) else found


@dataclass(frozen=True, slots=True)
class _Extent:
    name: str
    variable: str
    input: int
    axis: int


def _extents(op: OpDefinition, signature: Signature) -> dict[str, _Extent]:
    """Return the names of dimensions in the inputs' shapes, each with its first location."""
    taken = {*TAKEN, *_OWN, *signature.inputs, *signature.outputs, "_"}
    found: dict[str, _Extent] = {}
    for i, tensor in enumerate(op.inputs):
        dims = None if tensor.shape is None else tensor.shape.dims
        for axis, term in enumerate(() if dims is None or not tensor.is_mandatory else dims.terms):
            if isinstance(term, ast.Name) and term.id not in found:
                found[term.id] = _Extent(term.id, fresh(_plain(term.id), taken, ""), i, axis)
    return found


def _plain(name: str) -> str:
    return name if name.isascii() and name.strip("_") else "extent"


class _Coded(ast.NodeTransformer):
    """Replace names by variables of the method, and quotients by integer ones."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Name(self._names[node.id])

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Div | ast.FloorDiv):
            return node
        if isinstance(node.right, ast.Constant) and node.right.value:
            return ast.BinOp(node.left, ast.FloorDiv(), node.right)
        return ast.Call(ast.Name("_quotient"), [node.left, node.right], [])


def _in_body(part: Part, depth: int = 0, before: str = "", after: str = "") -> list[str]:
    """Return lines that fit within the indented body of a method."""
    indent = _BODY + _STEP * depth
    return [line[len(_BODY) :] for line in laid_out(part, indent, before, after)]


def _rest(name: str, start: int) -> str:
    return f"{name}[{start}:]" if start else name


def _typed(tensors: Sequence[Tensor], names: Sequence[str]) -> list[Part]:
    return [
        f"{name}: Spec" if tensor.is_mandatory else f"{name}: Spec | None"
        for tensor, name in zip(tensors, names, strict=True)
    ]
