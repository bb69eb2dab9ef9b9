"""Cells of recurrent layers in the many ways in which they are written."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.ir import DType, Graph, Tensor, TensorKind
from dovetail_opset.build import add, add_all, static
from dovetail_opset.importing import forms
from dovetail_opset.importing.cells import Step, recognize_cell
from dovetail_opset.importing.forms import FormBudget

ROWS, WIDTH, UNITS = 2, 3, 4


class Value:
    """A tensor of a step, with operators that add nodes."""

    def __init__(self, graph, tensor):
        self.graph, self.tensor = graph, tensor

    def _operand(self, other):
        if isinstance(other, Value):
            return other.tensor
        return static(self.graph, "constant", np.asarray(other, np.float32))

    def op(self, op_type, *others, **params):
        inputs = [self.tensor, *map(self._operand, others)]
        return Value(self.graph, add(self.graph, op_type, inputs, name=op_type, **params))

    def __add__(self, other):
        return self.op("ElementWiseAdd", other)

    def __sub__(self, other):
        return self.op("ElementWiseSubtract", other)

    def __mul__(self, other):
        return self.op("ElementWiseMultiply", other)

    def __matmul__(self, weights):
        return self.op("MatMul", weights)

    def rest(self):
        """Return 1 minus the value."""
        one = Value(self.graph, self._operand(1.0))
        return one.op("ElementWiseSubtract", self)

    def sigmoid(self):
        return self.op("Sigmoid")

    def tanh(self):
        return self.op("Tanh")

    def joined(self, other):
        return self.op("Concat", other, axis=1)

    def split(self, count):
        size = self.tensor.shape[1] // count
        index = [size * i for i in range(1, count)]
        names = [f"part{i}" for i in range(count)]
        parts = add_all(
            self.graph,
            "Split",
            [self.tensor],
            name="split",
            outputs=names,
            axis=1,
            split_index=index,
        )
        return [Value(self.graph, part) for part in parts]

    def columns(self, i):
        """Return the i-th part as a slice."""
        ranges = [(0, ROWS, 1), (i * UNITS, (i + 1) * UNITS, 1)]
        return self.op("StridedSlice", ranges=ranges)


def weights(gates):
    """Return joined weights of x, of h, and biases, in the order of the gates."""
    rng = np.random.default_rng(3)
    shapes = (WIDTH, gates * UNITS), (UNITS, gates * UNITS), (gates * UNITS,)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def parts(array, gates):
    return np.split(array, gates, axis=-1)


@pytest.fixture
def step(evaluate):
    """Build a step, and return the cell that is found, and what the step computes."""

    def build(write, count, *, rows=None):
        graph = Graph("step")
        names = {"x": WIDTH} | dict.fromkeys(("h", "c")[:count], UNITS)
        reads = [
            Value(
                graph,
                graph.add_tensor(Tensor(name, DType.FLOAT_32, (ROWS, n), TensorKind.APP_WRITE)),
            )
            for name, n in names.items()
        ]
        results = [value.tensor for value in write(*reads)]
        states = results[:count]
        written = results[count:] or [states[0]]
        x, *olds = (value.tensor for value in reads)
        cell = recognize_cell(Step(graph, x, olds, states, written), FormBudget())
        rng = np.random.default_rng(5)
        feeds = {n: rng.standard_normal((ROWS, s)).astype(np.float32) for n, s in names.items()}
        found = evaluate(graph, feeds)
        return cell, feeds, [found[tensor.name] for tensor in states]

    return build


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def computed(cell, x, *states):
    """Return the new states of a cell, by its definition."""
    h = states[cell.hidden]
    of_x = [x @ gate.inputs.T + gate.bias for gate in cell.gates]
    of_h = [h @ gate.recurrent.T + gate.recurrent_bias for gate in cell.gates]
    sums = [a + b for a, b in zip(of_x, of_h, strict=True)]
    if cell.op_type == "Rnn":
        return [{"Tanh": np.tanh, "Relu": lambda v: np.maximum(v, 0)}[cell.function](sums[0])]
    if cell.op_type == "Gru":
        z, r = map(sigmoid, sums[:2])
        gate = cell.gates[2]
        inner = r * of_h[2] if cell.resets_products else (r * h) @ gate.recurrent.T
        return [(1 - z) * np.tanh(of_x[2] + inner) + z * h]
    i, f, g, o = sigmoid(sums[0]), sigmoid(sums[1]), np.tanh(sums[2]), sigmoid(sums[3])
    c = f * states[cell.memory] + i * g
    new = [c, c]
    new[cell.hidden], new[cell.memory] = o * np.tanh(c), c
    return new


def lstm(i, f, g, o, c):
    """Return h and c from the sums of the gates."""
    new_c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * new_c.tanh(), new_c


def lstm_joined(x, h, c):
    w, r, b = weights(4)
    return lstm(*((h @ r) + (x @ w) + b).split(4), c)


def lstm_by_gate(x, h, c):
    w, r, b = (parts(a, 4) for a in weights(4))
    return lstm(*((x @ w[k]) + (h @ r[k]) + b[k] for k in range(4)), c)


def lstm_concatenated(x, h, c):
    w, r, b = weights(4)
    return lstm(*((x.joined(h) @ np.concatenate([w, r])) + b).split(4), c)


def lstm_functions_first(x, h, c):
    """One sigmoid of three gates, which are taken apart later."""
    w, r, b = weights(4)
    sums = (x @ w) + (h @ r) + b
    opened = sums.sigmoid()
    i, f, o = opened.columns(0), opened.columns(1), opened.columns(3)
    new_c = (i * sums.columns(2).tanh()) + (c * f)
    return new_c.tanh() * o, new_c


def lstm_with_forget_bias(x, h, c):
    """A bias of 1 is added to the forget gate, and biases of rows that are all alike."""
    w, r, b = (parts(a, 4) for a in weights(4))
    sums = [(x @ w[k]) + (h @ r[k]) + np.tile(b[k], (ROWS, 1)) for k in range(4)]
    return lstm(sums[0], sums[1] + 1.0, sums[2], sums[3], c)


def lstm_on_vectors(x, h, c):
    """Products of h with a scaled matrix; a second, plain use of h in the sums."""
    w, r, b = weights(4)
    sums = (x @ w) + ((h * 0.5) @ r) + b
    i, f, g, o = sums.split(4)
    return lstm(i - h, f, g, o + h, c)


def lstm_fully_connected(x, h, c):
    w, r, b = weights(4)
    sums = x.op("FullyConnected", w.T, b) + h.op("FullyConnected", r.T)
    return lstm(*sums.split(4), c)


@pytest.mark.parametrize(
    "write",
    [
        lstm_joined,
        lstm_by_gate,
        lstm_concatenated,
        lstm_functions_first,
        lstm_with_forget_bias,
        lstm_on_vectors,
        lstm_fully_connected,
    ],
)
@pytest.mark.parametrize("swapped", [False, True])
def test_lstm(step, write, swapped) -> None:
    def turned(x, c, h):
        new_h, new_c = write(x, h, c)
        return new_c, new_h, new_h

    cell, feeds, wanted = step(turned if swapped else write, 2)
    assert (cell.op_type, cell.hidden, cell.memory) == ("Lstm", int(swapped), int(not swapped))
    for found, want in zip(computed(cell, *feeds.values()), wanted, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


MIXED = {
    "z * h + (1 - z) * n": lambda z, h, n: (z * h) + (z.rest() * n),
    "(1 - z) * h + z * n": lambda z, h, n: (z.rest() * h) + (z * n),
    "n + z * (h - n)": lambda z, h, n: n + (z * (h - n)),
    "h + z * (n - h)": lambda z, h, n: h + ((n - h) * z),
    "(h - n) * z + n": lambda z, h, n: ((h - n) * z) + n,
    "h - z * h + z * n": lambda z, h, n: (h - (z * h)) + (z * n),
}


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("resets_products", [False, True])
@pytest.mark.parametrize("mixed", MIXED)
def test_gru(step, mixed, resets_products, has_bias) -> None:
    def write(x, h):
        w, r, b = (parts(a, 3) for a in weights(3))
        of_x = [(x @ w[k]) + b[k] if has_bias else x @ w[k] for k in range(3)]
        z, opened = ((of_x[k] + (h @ r[k])).sigmoid() for k in (0, 1))
        if not resets_products:
            inner = (h * opened) @ r[2]
        else:
            inner = opened * ((h @ r[2]) + b[0] if has_bias else h @ r[2])
        return [MIXED[mixed](z, h, (of_x[2] + inner).tanh())]

    cell, feeds, wanted = step(write, 1)
    assert (cell.op_type, cell.resets_products) == ("Gru", resets_products)
    np.testing.assert_allclose(computed(cell, *feeds.values())[0], wanted[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("function", ["Tanh", "Relu"])
def test_rnn(step, function) -> None:
    w, r, b = weights(1)
    cell, feeds, wanted = step(lambda x, h: [((x @ w) + (h @ r) + b).op(function)], 1)
    assert (cell.op_type, cell.function) == ("Rnn", function)
    np.testing.assert_allclose(computed(cell, *feeds.values())[0], wanted[0], rtol=1e-5, atol=1e-6)


def sums_of(x, h, gates=4):
    w, r, b = weights(gates)
    return ((x @ w) + (h @ r) + b).split(gates)


def other_function(x, h, c):
    i, f, g, o = sums_of(x, h)
    new_c = (f.sigmoid() * c) + (i.sigmoid() * g.op("Relu"))
    return o.sigmoid() * new_c.tanh(), new_c


def no_function_of_the_memory(x, h, c):
    i, f, g, o = sums_of(x, h)
    new_c = (f.sigmoid() * c) + (i.sigmoid() * g.tanh())
    return o.sigmoid() * new_c, new_c


def old_memory(x, h, c):
    i, f, g, o = sums_of(x, h)
    new_c = (f.sigmoid() * c) + (i.sigmoid() * g.tanh())
    return o.sigmoid() * c.tanh(), new_c


def peephole(x, h, c):
    i, f, g, o = sums_of(x, h)
    return lstm(i + c, f, g, o, c)


def coupled(x, h, c):
    _, f, g, o = sums_of(x, h)
    forget = f.sigmoid()
    new_c = (forget * c) + (forget.rest() * g.tanh())
    return o.sigmoid() * new_c.tanh(), new_c


def doubled(x, h, c):
    i, f, g, o = sums_of(x, h)
    new_c = (f.sigmoid() * c) + ((i.sigmoid() * g.tanh()) * 2.0)
    return o.sigmoid() * new_c.tanh(), new_c


def shifted(x, h, c):
    i, f, g, o = sums_of(x, h)
    new_c = (f.sigmoid() * c) + (i.sigmoid() * g.tanh()) + 0.5
    return o.sigmoid() * new_c.tanh(), new_c


def squared(x, h, c):
    i, f, g, o = sums_of(x, h)
    new_c = (f.sigmoid() * c) + (i.sigmoid() * g.tanh())
    opened = o.sigmoid()
    return (opened * opened) * new_c.tanh(), new_c


def writes_the_memory(x, h, c):
    new_h, new_c = lstm(*sums_of(x, h), c)
    return new_h, new_c, new_c


def rows_that_differ(x, h, c):
    i, f, g, o = sums_of(x, h)
    return lstm(i + np.arange(ROWS * UNITS).reshape(ROWS, UNITS), f, g, o, c)


def mixed_rows(x, h, c):
    """The rows of x are exchanged."""
    ranges = [(ROWS - 1, -1, -1), (0, WIDTH, 1)]
    return lstm(*sums_of(x.op("StridedSlice", ranges=ranges), h), c)


def added_rows(x, h, c):
    """One row of h is part of all sums."""
    one = h.op("StridedSlice", ranges=[(0, 1, 1), (0, UNITS, 1)])
    i, f, g, o = sums_of(x, h)
    return lstm(i + one, f, g, o, c)


def padded(x, h, c):
    """A zero takes the place of a unit."""
    ranges = [(0, ROWS, 1), (0, UNITS - 1, 1)]
    pads = [(0, 0), (0, 1)]
    short = h.op("StridedSlice", ranges=ranges).op("Pad", scheme=0, pad_amount=pads)
    return lstm(*sums_of(x, short), c)


def tiled(x, h, c):
    """Half of the units, twice."""
    half = h.op("StridedSlice", ranges=[(0, ROWS, 1), (0, UNITS // 2, 1)])
    return lstm(*sums_of(x, half.op("Tile", multiples=[1, 2])), c)


@pytest.mark.parametrize(
    "write",
    [
        other_function,
        no_function_of_the_memory,
        old_memory,
        peephole,
        coupled,
        doubled,
        shifted,
        squared,
        writes_the_memory,
        rows_that_differ,
        mixed_rows,
        added_rows,
        padded,
        tiled,
    ],
)
def test_what_is_no_lstm(step, write) -> None:
    assert step(write, 2)[0] is None


def gru_of(mix):
    def write(x, h):
        z, r, n = sums_of(x, h, 3)
        return mix(z.sigmoid(), r.sigmoid(), n.tanh(), h)

    return write


@pytest.mark.parametrize(
    "write",
    [
        gru_of(lambda z, r, n, h: [(z * h) + (z * n)]),
        gru_of(lambda z, r, n, h: [(z * h) + (r.rest() * n)]),
        gru_of(lambda z, r, n, h: [(z * h) + (z.rest() * n) + 0.25]),
        gru_of(lambda z, r, n, h: [n * 0.5]),
        gru_of(lambda z, r, n, h: [n + h]),
        gru_of(lambda z, r, n, h: [(n * h).tanh()]),
    ],
)
def test_what_is_no_gru(step, write) -> None:
    assert step(write, 1)[0] is None


def test_weights_that_may_change_are_no_cell(step) -> None:
    def write(x, h):
        w, r, b = weights(1)
        result = (x @ w) + (h @ r) + b
        graph = x.graph
        next(
            t for t in graph.tensors.values() if t.shape == r.shape
        ).kind = TensorKind.UPDATEABLE_STATIC
        return [result.tanh()]

    assert step(write, 1)[0] is None


def test_wide_forms_are_left(step, monkeypatch) -> None:
    """Limits of what may be computed, which hold for all loops of a model together."""
    monkeypatch.setattr(forms, "_MOST_ELEMENTS", 100)
    assert step(lstm_joined, 2)[0] is None
    monkeypatch.undo()
    monkeypatch.setattr(forms, "_MOST_TERMS", 1)
    assert step(lstm_joined, 2)[0] is None
    budget = FormBudget()
    assert [budget.has_loop() for _ in range(forms._MOST_LOOPS + 1)][-2:] == [True, False]


def test_numbers_that_overflow_give_no_warnings(step) -> None:
    def write(x, h):
        w, r, _ = weights(1)
        large = ((h * 1e30) @ (r * np.float32(1e30))) + ((x * np.inf) @ w)
        return [(large + np.float32(np.inf) * 0).tanh()]

    with np.errstate(all="raise"):
        graph = Graph("step")
        reads = [
            Value(
                graph,
                graph.add_tensor(Tensor(name, DType.FLOAT_32, (ROWS, n), TensorKind.APP_WRITE)),
            )
            for name, n in (("x", WIDTH), ("h", UNITS))
        ]
        with np.errstate(all="ignore"):
            (result,) = write(*reads)
        x, h = (value.tensor for value in reads)
        made = Step(graph, x, [h], [result.tensor], [result.tensor])
        recognize_cell(made, FormBudget())


def test_deep_functions_are_left(step) -> None:
    """A form of a thousand functions, in any order of nodes, takes no deep recursion."""

    def write(x, h):
        w, r, _ = weights(2)
        value = (x @ w) + (h @ r)
        for _ in range(1000):
            value = value.tanh()
        return [value.columns(0)]

    assert step(write, 1)[0] is None
