"""Quantized recurrent layers with random weights and data, compared with their definition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dovetail.container import WeightStore
from dovetail.ir import Array, AxisScaleOffset, DType, Graph, ScaleOffset, Tensor, TensorKind
from dovetail.ops import NodeView, OpRegistry, check_ops
from dovetail.runtime.contract import RunControl
from dovetail.runtime.plan import KernelRegistry, PlanPrepared, build_plan
from dovetail_numpy.integer import DEFINITIONS
from dovetail_numpy.integer.definitions import Run
from dovetail_numpy.kernels import integer_gru, integer_lstm
from dovetail_opset import PACKAGE
from dovetail_opset.build import add, add_all

U8, S8, U16 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8, DType.UFIXED_POINT_16
S16, S32 = DType.SFIXED_POINT_16, DType.SFIXED_POINT_32
LSTM, GRU = integer_lstm.__name__, integer_gru.__name__


class Net:
    """A graph of recurrent layers on stored integers, with random data."""

    def __init__(self, seed: int, *, is_extreme: bool = False) -> None:
        self.graph, self.rng = Graph("net"), np.random.default_rng(seed)
        self.is_extreme = is_extreme
        self.feeds: dict[str, Array] = {}

    def stored(self, shape: tuple[int, ...], dtype: DType) -> Array:
        low, high = (-(1 << 20), 1 << 20) if dtype is S32 else dtype.stored_range()
        if self.is_extreme:
            return np.where(self.rng.random(shape) < 0.8, high, low).astype(dtype.storage)
        return self.rng.integers(low, high, shape, endpoint=True).astype(dtype.storage)

    def input(self, name: str, shape: tuple[int, ...], dtype: DType, grid: Any) -> Tensor:
        encoding = ScaleOffset(grid[0], -_within(dtype, grid[1]))
        tensor = Tensor(name, dtype, shape, TensorKind.APP_WRITE, encoding=encoding)
        self.feeds[name] = self.stored(shape, dtype)
        return self.graph.add_tensor(tensor)

    def flag(self, name: str) -> Tensor:
        """Add an input that is a single bool."""
        self.feeds[name] = np.ones((), np.bool_)
        return self.graph.add_tensor(Tensor(name, DType.BOOL_8, (), TensorKind.APP_WRITE))

    def constant(self, name: str, shape: tuple[int, ...], dtype: DType, encoding: Any) -> Tensor:
        stored = self.stored(shape, dtype)
        return self.graph.add_tensor(Tensor.static(name, stored, dtype, encoding=encoding))

    def weights(self, name: str, shape: tuple[int, ...], dtype: DType) -> Tensor:
        if dtype is S8 and self.rng.random() < 0.5:
            steps = self.rng.uniform(0.001, 0.02, shape[0]).astype(np.float32)
            return self.constant(name, shape, dtype, AxisScaleOffset(0, steps))
        zero = int(self.rng.integers(*dtype.stored_range()))
        return self.constant(name, shape, dtype, ScaleOffset(0.005, -zero))

    def bias(self, name: str, units: int) -> Tensor | None:
        if self.rng.random() < 0.2:
            return None
        return self.constant(name, (units,), S32, ScaleOffset(1e-6, 0))

    def results(self, name: str, *specs: tuple[tuple[int, ...], DType, Any]) -> list[Tensor]:
        return [
            Tensor(
                f"{name}.out{i}",
                dtype,
                shape,
                TensorKind.APP_READ,
                encoding=ScaleOffset(grid[0], -_within(dtype, grid[1])),
            )
            for i, (shape, dtype, grid) in enumerate(specs)
        ]

    def check(self, modules: Sequence[str], kernels: KernelRegistry, **plan: Any) -> None:
        """Compare all outputs with the definition, several times, with other data.

        Args:
            modules: That of the kernel of each step.
            kernels: The kernels.
            plan: Further arguments of `build_plan`.
        """
        checked = check_ops(self.graph, OpRegistry.of(PACKAGE))
        prepared = PlanPrepared(build_plan(checked, kernels, WeightStore(), None, **plan))
        assert [s.bind.__module__ for s in prepared.steps] == list(modules)
        definitions = [_prepared(view) for view in checked.nodes]
        for _ in range(4):
            found = {t.name: np.zeros(t.shape, t.dtype.storage) for t in self.graph.outputs}
            prepared.run(self.feeds, found, RunControl())
            tensors = self.graph.tensors.values()
            known = {t.name: t.stored() for t in tensors if t.data is not None} | self.feeds
            for view, compute in zip(checked.nodes, definitions, strict=True):
                ins = [None if t is None else known[t.name] for t in view.node.inputs]
                wanted = compute(ins)
                known |= {t.name: r for t, r in zip(view.node.outputs, wanted, strict=True)}
            for name, result in found.items():
                np.testing.assert_array_equal(result, known[name], name)
            self.feeds = {
                name: self.stored(array.shape, self.graph.tensors[name].dtype)
                for name, array in self.feeds.items()
                if array.dtype != np.bool_
            } | {
                name: np.asarray(~array)
                for name, array in self.feeds.items()
                if array.dtype == np.bool_
            }


def _prepared(view: NodeView) -> Run:
    """Return the function of a node by definition, which may keep a state between runs."""
    definition = DEFINITIONS.of(view)
    assert definition is not None
    return definition.prepare(view)


def _within(dtype: DType, zero: int) -> int:
    low, high = dtype.stored_range()
    return min(max(zero, low), high)


def lstm(net: Net, name: str, x: Tensor, units: int, **options: Any) -> list[Tensor]:
    """Add an Lstm; return its results.

    Args:
        net: The graph.
        name: Of the node.
        x: The data.
        units: Of the cell.
        options: `weights`, the type of the weights; `h`, `cell` and perhaps `last`, types and grids
            of results; `states` for given states; `coupled` without an input gate; `peepholes`,
            their type; `projection`, the number of its units; `norms`; `reset`; and params.
    """
    params = dict(options)
    weights, h, cell = params.pop("weights"), params.pop("h"), params.pop("cell")
    states, last = params.pop("states", False), params.pop("last", h)
    size = projection = params.pop("projection", 0)
    size = size or units
    features, ins = x.shape[-1], [x, *[None] * 24]
    ports = [(1, 4, 7, 13, 19), (2, 5, 8, 14, None), (3, 6, 9, 15, 20)]
    ports += [] if params.pop("coupled", False) else [(16, 17, 21, 12, 18)]
    norms = params.pop("norms", False)
    peepholes = params.pop("peepholes", None)
    for of_x, of_h, bias, norm, peephole in ports:
        ins[of_x] = net.weights(f"{name}.{of_x}", (units, features), weights)
        ins[of_h] = net.weights(f"{name}.{of_h}", (units, size), weights)
        # of a group, all are given
        ins[bias] = net.constant(f"{name}.{bias}", (units,), S32, ScaleOffset(1e-6, 0))
        if norms:
            encoding = ScaleOffset(1.5 * 2.0**-15, 0)
            ins[norm] = net.constant(f"{name}.{norm}", (units,), S16, encoding)
        if peepholes is not None and peephole is not None:
            encoding = ScaleOffset(0.7 * 2.0**-15 if peepholes is S16 else 0.005, 0)
            ins[peephole] = net.constant(f"{name}.{peephole}", (units,), peepholes, encoding)
    is_major = params.get("time_major", True)
    batch = x.shape[0] if len(x.shape) == 2 or not is_major else x.shape[1]
    if states:
        ins[10] = net.input(f"{name}.h", (batch, size), U8, (0.01, 100))
        ins[11] = net.input(f"{name}.c", (batch, units), S16, (0.001, 0))
    if projection:
        ins[22] = net.weights(f"{name}.22", (size, units), weights)
        ins[23] = net.bias(f"{name}.23", size)
    if params.pop("reset", False):
        ins[24] = net.flag(f"{name}.reset")
    outs = net.results(
        name,
        ((*x.shape[:-1], size), *h),
        ((batch, units), cell[0], cell[1:]),
        ((batch, size), *last),
    )
    add_all(net.graph, "Lstm", ins, name=name, outputs=outs, **params)
    return outs


def gru(net: Net, name: str, x: Tensor, units: int, **options: Any) -> list[Tensor]:
    """Add a Gru; return its results."""
    params = dict(options)
    weights, h, last = params.pop("weights"), params.pop("h"), params.pop("last")
    batch = x.shape[1] if params.get("time_major", True) else x.shape[0]
    ins: list[Tensor | None] = [x]
    ins += [net.weights(f"{name}.{i}", (units, x.shape[-1]), weights) for i in (1, 2, 3)]
    ins += [net.weights(f"{name}.{i}", (units, units), weights) for i in (4, 5, 6)]
    ins += [net.bias(f"{name}.{i}", units) for i in range(7, 13)]
    if params.pop("states", False):
        ins.append(net.input(f"{name}.h", (1, batch, units), U8, (0.01, 100)))
    outs = net.results(name, ((*x.shape[:-1], units), *h), ((1, batch, units), *last))
    add_all(net.graph, "Gru", ins, name=name, outputs=outs, **params)
    return outs


def both_directions(
    net: Net, op_type: str, shape: tuple[int, ...], units: int, **options: Any
) -> None:
    """Add a layer in both directions, whose results are concatenated.

    Args:
        net: The graph.
        op_type: `Lstm` or `Gru`.
        shape: Of the data.
        units: Of each direction.
        options: As for `lstm` or `gru`; `cells` are the cells of an Lstm's directions. `order` are
            the directions in the order of the nodes.
    """
    cells, order = options.pop("cells", [None, None]), options.pop("order", (0, 1))
    x, made = net.input("x", shape, U8, (0.02, 100)), dict[int, Tensor]()
    for direction, cell in zip(order, cells, strict=True):
        given = options | {"direction": direction, "weights": S8}
        name = f"n{direction}"
        results = (
            lstm(net, name, x, units, cell=cell, **given)
            if op_type == "Lstm"
            else gru(net, name, x, units, last=given["h"], **given)
        )
        made[direction] = results[0]
        for tensor in results:
            tensor.kind = TensorKind.NATIVE
    joined = add(net.graph, "Concat", [made[0], made[1]], name="y", axis=2)
    joined.dtype, joined.encoding, joined.kind = U8, made[0].encoding, TensorKind.APP_READ
