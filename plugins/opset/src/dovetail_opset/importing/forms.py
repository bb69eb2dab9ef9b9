"""Tensors of one step of a recurrence as sums of products of what the step reads.

Only the last axis counts; all other axes are rows that the step treats alike. A form does not
depend on how a step is spelled: products of joined matrices that are split later, of split
matrices, and of `concat(x, h)` with one matrix have the same form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from dovetail.ir import Array, Graph, Node, Tensor
from dovetail.ops import bind_node, input_specs, simulate
from dovetail_opset._package import schema_of

# Limits far beyond those of cells: terms of a form, functions of functions, and for a whole model
# its loops, the elements of all matrices, and the multiplications in their products.
_MOST_TERMS, _MOST_DEPTH = 64, 8
_MOST_LOOPS, _MOST_ELEMENTS, _MOST_PRODUCTS = 100, 1 << 27, 1 << 32
_MOST_INDEXED = 1 << 24  # whole numbers that float32 holds
# Ops whose results are columns of their input's rows.
_MOVES = frozenset(("ExpandDims", "Reshape", "Split", "Squeeze", "StridedSlice", "Transpose"))
_FUNCTIONS = frozenset(("Sigmoid", "Tanh", "Relu"))


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """A tensor that the step reads, or a function of a form. Compared by identity.

    Attributes:
        size: Its number of elements.
        function: The function's op; `SUM` for the form itself, and empty for what the step reads.
        argument: The function's argument; None for what the step reads.
        depth: The number of functions within each other.
    """

    size: int
    function: str = ""
    argument: Form | None = None
    depth: int = 0


Term: TypeAlias = frozenset[Factor]
SUM = "sum"


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """A constant, plus products of factors that a number or a matrix multiplies.

    Attributes:
        terms: What multiplies each product: a number, or a matrix (factor size, size).
        constant: (size,).
    """

    terms: Mapping[Term, float | Array]
    constant: Array

    @property
    def size(self) -> int:
        """The number of elements."""
        return len(self.constant)


class _NoFormError(Exception):
    """A tensor has no form."""


class FormBudget:
    """The limits of what one import computes to recognize loops."""

    def __init__(self) -> None:
        self._loops = self._elements = self._products = 0

    def has_loop(self) -> bool:
        """Return whether one more loop may be tried; count it if so."""
        self._loops += 1
        return self._loops <= _MOST_LOOPS

    def claim(self, elements: int, products: int = 0) -> None:
        """Count elements of a new array, and the multiplications that compute it.

        Raises:
            _NoFormError: There would be too many.
        """
        self._elements += elements
        self._products += products
        if self._elements > _MOST_ELEMENTS or self._products > _MOST_PRODUCTS:
            raise _NoFormError


def forms_of(
    graph: Graph, reads: Mapping[Tensor, Factor], budget: FormBudget
) -> dict[Tensor, Form]:
    """Return the forms of a graph's tensors as far as they have one.

    Args:
        graph: The graph of one step, in floats.
        reads: What the step reads, x and states, as tensors of the graph.
        budget: What may be computed; beyond it, tensors have no form.
    """
    reader = _Reader(budget)
    for tensor, factor in reads.items():
        reader.forms[tensor] = _of(factor)
    with np.errstate(all="ignore"):  # what overflows here, does so in the step as well
        for node in graph.nodes:
            try:
                reader.read(node)
            except _NoFormError:
                continue
    return reader.forms


class _Reader:
    """Reads nodes in order.

    Args:
        budget: What may be computed.

    Attributes:
        forms: Those found.
    """

    def __init__(self, budget: FormBudget) -> None:
        self._budget = budget
        self.forms: dict[Tensor, Form] = {}
        self._parts: dict[tuple[Factor, tuple[int, ...]], Factor] = {}
        self._sums: dict[Form, Factor] = {}
        self._rules: dict[str, Callable[[Node, Any], Form]] = {
            "FullyConnected": self._connected,
            "MatMul": self._matmul,
            "ElementWiseAdd": lambda node, _: self._added(*self._both(node)),
            "ElementWiseSubtract": lambda node, _: self._subtract(node),
            "ElementWiseMultiply": lambda node, _: self._multiply(*self._both(node)),
            "ElementWiseNeg": lambda node, _: _scaled(self._form(node, 0), -1.0),
            "Concat": self._concat,
        }

    def read(self, node: Node) -> None:
        """Add the forms of a node's outputs.

        Raises:
            _NoFormError: They have none.
        """
        schema = schema_of(node)
        if schema is None or not node.outputs[0].dtype.is_float:
            raise _NoFormError
        bound = bind_node(schema, node)
        if node.op_type in self._rules:
            self.forms[node.outputs[0]] = self._rules[node.op_type](node, bound)
        elif node.op_type in _FUNCTIONS:
            self.forms[node.outputs[0]] = _of(_function(node.op_type, self._form(node, 0)))
        elif node.op_type in _MOVES:
            self._move(node, schema, bound)
        else:
            raise _NoFormError

    # -- operands --------------------------------------------------------------------------------

    def _form(self, node: Node, i: int) -> Form:
        tensor = node.inputs[i]
        form = None if tensor is None else self.forms.get(tensor)
        if tensor is None or form is None or not _same_rows(tensor, node.outputs[0]):
            raise _NoFormError
        return form

    def _both(self, node: Node) -> tuple[Form, Form]:
        """Return both operands of a sum or product; a constant is a form without terms."""
        size = node.outputs[0].shape[-1] if node.outputs[0].shape else 1
        found = []
        for i, tensor in enumerate(node.inputs[:2]):
            values = _constant(tensor)
            form = self._form(node, i) if values is None else _row(values, size)
            if form.size != size:
                raise _NoFormError
            found.append(form)
        return found[0], found[1]

    # -- ops -------------------------------------------------------------------------------------

    def _connected(self, node: Node, _: Any) -> Form:
        weights = _needed(node.inputs[1])
        found = self._times(self._form(node, 0), weights.T)
        return self._biased(found, node)

    def _matmul(self, node: Node, op: Any) -> Form:
        weights = _needed(node.inputs[1])
        if op.transpose_in0 or weights.ndim != 2:
            raise _NoFormError
        found = self._times(self._form(node, 0), weights.T if op.transpose_in1 else weights)
        return self._biased(found, node)

    def _times(self, form: Form, weights: Array) -> Form:
        if form.size != len(weights):
            raise _NoFormError
        terms: dict[Term, float | Array] = {}
        for term, by in form.terms.items():
            if isinstance(by, float):
                self._budget.claim(weights.size)
                terms[term] = weights if by == 1.0 else by * weights
            else:
                self._budget.claim(len(by) * weights.shape[1], len(by) * weights.size)
                terms[term] = by @ weights
        return Form(terms, form.constant @ weights)

    def _subtract(self, node: Node) -> Form:
        first, second = self._both(node)
        return self._added(first, _scaled(second, -1.0))

    def _added(self, first: Form, second: Form) -> Form:
        terms = dict(first.terms)
        for term, by in second.terms.items():
            if term not in terms:
                terms[term] = by
                continue
            before = terms.pop(term)
            if isinstance(by, float) and isinstance(before, float):
                if by + before:
                    terms[term] = by + before
            else:
                one, other = (self._matrix(term, each, first.size) for each in (before, by))
                terms[term] = one + other
        if len(terms) > _MOST_TERMS:
            raise _NoFormError
        return Form(terms, first.constant + second.constant)

    def _biased(self, form: Form, node: Node) -> Form:
        if len(node.inputs) < 3 or node.inputs[2] is None:
            return form
        return self._added(form, _row(_needed(node.inputs[2]), form.size))

    def _matrix(self, term: Term, by: float | Array, size: int) -> Array:
        """Return what multiplies a product as a matrix."""
        if not isinstance(by, float):
            self._budget.claim(by.size)
            return by
        self._budget.claim(size * size)
        return by * np.eye(size, dtype=np.float32)

    def _multiply(self, first: Form, second: Form) -> Form:
        one, other = self._polynomial(first), self._polynomial(second)
        if len(one) * len(other) > _MOST_TERMS:
            raise _NoFormError
        terms: dict[Term, float] = {}
        for term, by in one.items():
            for other_term, other_by in other.items():
                if term & other_term:
                    raise _NoFormError  # a square
                key = term | other_term
                terms[key] = terms.get(key, 0.0) + by * other_by
        constant = np.full(first.size, terms.pop(frozenset(), 0.0), np.float32)
        return Form({term: by for term, by in terms.items() if by}, constant)

    def _polynomial(self, form: Form) -> dict[Term, float]:
        """Return a form as products times numbers, itself as one factor if there are matrices."""
        numbers = {term: by for term, by in form.terms.items() if isinstance(by, float)}
        if len(numbers) == len(form.terms) and np.all(form.constant == form.constant[:1]):
            constant = float(form.constant[0]) if form.size else 0.0
            return numbers | ({frozenset(): constant} if constant else {})
        if not form.terms:
            raise _NoFormError  # a constant that varies
        if form not in self._sums:
            self._sums[form] = _function(SUM, form)
        return {frozenset((self._sums[form],)): 1.0}

    def _concat(self, node: Node, op: Any) -> Form:
        forms = [self._form(node, i) for i in range(len(node.inputs))]
        if op.axis != len(node.outputs[0].shape) - 1:
            raise _NoFormError
        size = sum(form.size for form in forms)
        terms: dict[Term, float | Array] = {}
        begin = 0
        for form in forms:
            for term, by in form.terms.items():
                part = self._matrix(term, by, form.size)
                self._budget.claim(len(part) * size)
                wide = np.zeros((len(part), size), part.dtype)
                wide[:, begin : begin + form.size] = part
                terms[term] = terms[term] + wide if term in terms else wide
            begin += form.size
        return Form(terms, np.concatenate([form.constant for form in forms]))

    def _move(self, node: Node, schema: Any, op: Any) -> None:
        """Add the forms of outputs whose rows are columns of the input's rows."""
        tensor = node.inputs[0]
        form = None if tensor is None else self.forms.get(tensor)
        if tensor is None or form is None or not tensor.shape:
            raise _NoFormError
        if math.prod(tensor.shape) > _MOST_INDEXED:
            raise _NoFormError
        for each in (tensor, *node.outputs):
            self._budget.claim(math.prod(each.shape))
        index = np.arange(math.prod(tensor.shape), dtype=np.float32).reshape(tensor.shape)
        outs = [each.spec for each in node.outputs]
        moved = simulate(schema, op, [index], input_specs(node), outs)
        for output, found in zip(node.outputs, moved, strict=True):
            if not found.size:
                continue
            rows = found.reshape(-1, found.shape[-1] if found.shape else 1).astype(np.int64)
            columns = rows[0]
            begins = np.arange(len(rows))[:, None] * form.size
            if len(rows) * form.size != index.size or not np.array_equal(rows, begins + columns):
                continue
            if np.all(columns < form.size):
                self.forms[output] = self._columns(form, columns)

    def _columns(self, form: Form, columns: Array) -> Form:
        if np.array_equal(columns, np.arange(form.size)):
            return form
        terms: dict[Term, float | Array] = {}
        for term, by in form.terms.items():
            if not isinstance(by, float):
                terms[term] = self._taken(by, columns)
            elif all(factor.argument is not None for factor in term):
                terms[frozenset(self._part(factor, columns) for factor in term)] = by
            else:
                terms[term] = self._taken(self._matrix(term, by, form.size), columns)
        return Form(terms, form.constant[columns])

    def _taken(self, matrix: Array, columns: Array) -> Array:
        first, count = int(columns[0]), len(columns)
        if np.array_equal(columns, np.arange(first, first + count)):
            return matrix[:, first : first + count]
        self._budget.claim(len(matrix) * count)
        return matrix[:, columns]

    def _part(self, factor: Factor, columns: Array) -> Factor:
        """Return columns of a function's results: the function of its argument's columns."""
        key = factor, tuple(map(int, columns))
        if key not in self._parts and factor.argument is not None:
            argument = self._columns(factor.argument, columns)
            self._parts[key] = _function(factor.function, argument)
        return self._parts[key]


def _function(name: str, argument: Form) -> Factor:
    depth = 1 + max((f.depth for term in argument.terms for f in term), default=0)
    if depth > _MOST_DEPTH:
        raise _NoFormError
    return Factor(argument.size, name, argument, depth)


def _of(factor: Factor) -> Form:
    return Form({frozenset((factor,)): 1.0}, np.zeros(factor.size, np.float32))


def _same_rows(tensor: Tensor, other: Tensor) -> bool:
    return math.prod(tensor.shape[:-1]) == math.prod(other.shape[:-1])


def _constant(tensor: Tensor | None) -> Array | None:
    """Return the values of a constant; those of an UPDATEABLE tensor may change."""
    if tensor is None or not tensor.kind.is_static or tensor.kind.is_updateable:
        return None
    return tensor.values()


def _needed(tensor: Tensor | None) -> Array:
    values = _constant(tensor)
    if values is None:
        raise _NoFormError
    return values


def _row(values: Array, size: int) -> Form:
    """Return a constant whose rows are all the same."""
    if not values.size or (values.size != 1 and values.shape[-1] != size):
        raise _NoFormError
    rows = values.reshape(-1, values.shape[-1] if values.size != 1 else 1)
    if not np.array_equal(rows, np.broadcast_to(rows[0], rows.shape)):
        raise _NoFormError
    return Form({}, np.broadcast_to(rows[0], size))


def _scaled(form: Form, by: float) -> Form:
    return Form({term: by * old for term, old in form.terms.items()}, by * form.constant)
