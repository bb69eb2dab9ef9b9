"""Cells of recurrent layers, recognized in the graph of one step."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.ir import Array, Graph, Tensor
from dovetail_opset.importing.forms import SUM, Factor, Form, FormBudget, Term, forms_of

_SIGMOID, _TANH = "Sigmoid", "Tanh"


@dataclass(frozen=True, slots=True)
class Gate:
    """The weights of one gate.

    Attributes:
        inputs: Weights of x, (units, input size).
        recurrent: Weights of h, (units, units).
        bias: (units,).
        recurrent_bias: What is added to the products with h alone, (units,).
    """

    inputs: Array
    recurrent: Array
    bias: Array
    recurrent_bias: Array

    @property
    def opposite(self) -> Gate:
        """The gate whose sigmoid is 1 minus this one's."""
        return Gate(-self.inputs, -self.recurrent, -self.bias, -self.recurrent_bias)


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell that an op computes for all steps.

    Attributes:
        op_type: `Lstm` with the gates i, f, g, o; `Gru` with z, r, n; or `Rnn` with one.
        gates: Their weights.
        hidden: Index of the state h.
        memory: Index of the state c; None where there is none.
        resets_products: Whether the r of a Gru multiplies the products with h, not h itself.
        function: The function of an Rnn.
    """

    op_type: str
    gates: tuple[Gate, ...]
    hidden: int
    memory: int | None = None
    resets_products: bool = False
    function: str = _TANH


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a loop.

    Attributes:
        graph: Its nodes.
        x: What it reads of a sequence.
        states: What it reads of the step before.
        results: The new states.
        rows: What it writes to sequences.
    """

    graph: Graph
    x: Tensor
    states: Sequence[Tensor]
    results: Sequence[Tensor]
    rows: Sequence[Tensor]


def recognize_cell(step: Step, budget: FormBudget) -> Cell | None:
    """Return the cell that a step computes; None if it is none, or writes other rows than h.

    Args:
        step: The step.
        budget: What may be computed to recognize it.
    """
    reads = {t: Factor(t.shape[-1]) for t in (step.x, *step.states) if t.shape}
    if len(reads) != 1 + len(step.states) or not _alike(step):
        return None
    forms = forms_of(step.graph, reads, budget)
    results = [forms.get(tensor) for tensor in step.results]
    x, states = reads[step.x], [reads[tensor] for tensor in step.states]
    cell = _lstm(x, states, results) if len(states) == 2 else None
    if len(states) == 1 and (new := results[0]) is not None:
        cell = _gru(x, states[0], new) or _rnn(x, states[0], new)
    if cell is None or any(forms.get(row) is not results[cell.hidden] for row in step.rows):
        return None
    return cell


def _alike(step: Step) -> bool:
    """Return whether x and the states have the same rows and type, and states keep their specs."""
    pairs = zip(step.states, step.results, strict=True)
    if any(state.spec != result.spec or state.dtype is not step.x.dtype for state, result in pairs):
        return False
    return len({math.prod(tensor.shape[:-1]) for tensor in (step.x, *step.states)}) == 1


def _lstm(x: Factor, states: Sequence[Factor], results: Sequence[Form | None]) -> Cell | None:
    """Return an Lstm, c' = f * c + i * g and h' = o * tanh(c'); None for another cell."""
    for hidden, memory in itertools.permutations(range(2)):
        new_h, new_c = results[hidden], results[memory]
        if new_h is None or new_c is None:
            return None
        kept, added = _kept_and_added(_products(new_c), states[memory])
        (forget,) = _functions(kept, _SIGMOID) or (None,)
        taken, new = _functions(added, _SIGMOID, _TANH) or (None, None)
        opened, of_c = _functions(_only(_products(new_h)), _SIGMOID, _TANH) or (None, None)
        if of_c is None or of_c.argument is not new_c:
            continue
        gates = [_gate(each, x, states[hidden]) for each in (taken, forget, new, opened)]
        found = tuple(gate for gate in gates if gate is not None)
        if len(found) == len(gates):
            return Cell("Lstm", found, hidden, memory)
    return None


def _gru(x: Factor, h: Factor, new_h: Form) -> Cell | None:
    """Return a Gru, h' = z * h + (1 - z) * n in any arrangement; None for another cell."""
    terms = new_h.terms
    for term in terms:
        z, n = _functions(term, _SIGMOID, _TANH) or (None, None)
        if z is None or n is None or n.argument is None or new_h.constant.any():
            continue
        update = _gate(z, x, h)
        same = {frozenset((z, h)): 1.0, frozenset((n,)): 1.0, frozenset((z, n)): -1.0}
        turned = {frozenset((z, n)): 1.0, frozenset((h,)): 1.0, frozenset((z, h)): -1.0}
        found = _reset(n.argument, x, h)
        if update is None or found is None or not any(_equal(terms, w) for w in (same, turned)):
            continue
        if _equal(terms, turned):
            update = update.opposite
        return Cell("Gru", (update, *found[0]), 0, resets_products=found[1])
    return None


def _reset(form: Form, x: Factor, h: Factor) -> tuple[tuple[Gate, Gate], bool] | None:
    """Return the gates r and n from n's argument, and whether r multiplies products."""
    of_x = frozenset((x,))
    others = [term for term in form.terms if term != of_x]
    if len(others) != 1:
        return None
    (term,) = others
    inputs = _weights(form, of_x, x)
    (opened,) = _functions(term - {h}, _SIGMOID) or (None,)
    if opened is not None and h in term:
        reset, recurrent = _gate(opened, x, h), _weights(form, term, h)
        new = Gate(inputs, recurrent, form.constant, np.zeros_like(form.constant))
        return None if reset is None else ((reset, new), False)
    opened, product = _functions(term, _SIGMOID, SUM) or (None, None)
    if product is None or product.argument is None or not _equal(form.terms, {term: 1.0}, of_x):
        return None
    reset, summed = _gate(opened, x, h), product.argument
    of_h = frozenset((h,))
    if reset is None or not set(summed.terms) <= {of_h}:
        return None
    new = Gate(inputs, _weights(summed, of_h, h), form.constant, summed.constant)
    return (reset, new), True


def _rnn(x: Factor, h: Factor, new_h: Form) -> Cell | None:
    """Return an Rnn, h' = f(W x + R h + b); None for another cell."""
    term = _only(_products(new_h))
    if term is None or len(term) != 1:
        return None
    (factor,) = term
    gate = _gate(factor, x, h)
    return None if gate is None else Cell("Rnn", (gate,), 0, function=factor.function)


def _gate(factor: Factor | None, x: Factor, h: Factor) -> Gate | None:
    """Return the weights of a function of weighted x and h; None if it has another argument."""
    form = None if factor is None else factor.argument
    of_x, of_h = frozenset((x,)), frozenset((h,))
    if form is None or not set(form.terms) <= {of_x, of_h}:
        return None
    zero = np.zeros_like(form.constant)
    return Gate(_weights(form, of_x, x), _weights(form, of_h, h), form.constant, zero)


def _weights(form: Form, term: Term, factor: Factor) -> Array:
    """Return what multiplies a term, (units, factor size); zeros if the form lacks it."""
    by = form.terms.get(term, 0.0)
    if isinstance(by, float):
        return by * np.eye(form.size, factor.size, dtype=np.float32)
    return by.T


def _products(form: Form) -> list[Term]:
    """Return the products that a form adds; none if it is another kind of sum."""
    plain = _equal(form.terms, dict.fromkeys(form.terms, 1.0)) and not form.constant.any()
    return list(form.terms) if plain else []


def _equal(
    terms: Mapping[Term, float | Array], wanted: Mapping[Term, float], besides: Term | None = None
) -> bool:
    """Return whether terms have these numbers, ignoring the term `besides`."""
    found = {term: by for term, by in terms.items() if term != besides}
    return found.keys() == wanted.keys() and all(
        isinstance(by, float) and by == wanted[term] for term, by in found.items()
    )


def _kept_and_added(products: Sequence[Term], memory: Factor) -> tuple[Term | None, Term | None]:
    """Return what multiplies the memory, and the other of two products."""
    kept = [term for term in products if memory in term]
    added = [term for term in products if memory not in term]
    if len(kept) != 1 or len(added) != 1:
        return None, None
    return kept[0] - {memory}, added[0]


def _only(products: Sequence[Term]) -> Term | None:
    return products[0] if len(products) == 1 else None


def _functions(term: Term | None, *functions: str) -> tuple[Factor, ...] | None:
    """Return the factors of a product that are these functions, in this order."""
    by_function = {factor.function: factor for factor in term or ()}
    if term is None or len(term) != len(functions) or set(by_function) != set(functions):
        return None
    return tuple(by_function[name] for name in functions)
