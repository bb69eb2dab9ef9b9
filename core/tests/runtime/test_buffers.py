"""Where outputs go when the application brings no arrays."""

from __future__ import annotations

import numpy as np

from dovetail.ir import DType, Graph, Tensor, TensorKind
from dovetail.runtime.interface import Interface
from dovetail.runtime.io_buffers import Results

EXTENTS = {"small": 4, "large": 1 << 16, "none": 0, "last": 3}


def results(*names: str) -> Results:
    graph = Graph("g")
    for name in names:
        graph.add_tensor(Tensor(name, DType.FLOAT_32, (EXTENTS[name],), TensorKind.APP_READ))
    return Results(Interface.of(graph.name, graph.inputs, graph.outputs))


def test_what_was_given_stays_when_the_next_run_writes() -> None:
    made = results("small", "large", "none", "last")
    given = []
    for run in range(3):
        arrays = made.arrays()
        for array in arrays.values():
            array.fill(run)
        given.append(made.taken(arrays))
    for run, outputs in enumerate(given):
        assert list(outputs) == ["small", "large", "none", "last"]
        for name, array in outputs.items():
            assert array.shape == (EXTENTS[name],)
            assert array.flags.owndata
            assert np.all(array == run)


def test_small_arrays_stay_and_great_ones_are_not_copied() -> None:
    made = results("small", "large")
    first, second = made.arrays(), made.arrays()
    assert first["small"] is second["small"]
    assert first["large"] is not second["large"]
    assert made.taken(first)["large"] is first["large"]


def test_small_arrays_alone_are_no_work() -> None:
    made = results("small", "last")
    assert made.arrays() is made.arrays()
