"""Ops with state, over several runs of a prepared graph."""

import numpy as np
import pytest

from dovetail.ir import DType, Spec
from dovetail.runtime.contract import RunControl


@pytest.fixture(name="runner")
def fixture_runner(prepare):
    """Prepare a graph of one output and return a function that runs it once."""

    def make(graph):
        prepared = prepare(graph)
        (out,) = graph.outputs

        def run(*inputs):
            result = np.empty(out.shape, out.dtype.storage)
            feeds = {t.name: np.asarray(x) for t, x in zip(graph.inputs, inputs, strict=True)}
            prepared.run(feeds, {out.name: result}, RunControl())
            return result

        return run

    return make


@pytest.mark.parametrize("inside", [False, True])
def test_a_buffer_fills_from_run_to_run(op_graph, runner, inside):
    frame = np.zeros(1, np.float32)
    ins = [frame, np.array(False)]
    graph, _ = op_graph("Buffer", ins, inside=inside, buffer_size=3, buffer_dim=0, mode=1)
    run, other = runner(graph), runner(graph)

    def push(value, reset=False):
        return run(np.float32([value]), reset).tolist()

    assert [push(1), push(2), push(3), push(4)] == [[1, 0, 0], [1, 2, 0], [1, 2, 3], [2, 3, 4]]
    assert push(5, reset=True) == [5, 0, 0]
    # the same graph prepared again has a new state
    assert other(np.float32([7]), False).tolist() == [7, 0, 0]
    assert push(6) == [5, 6, 0]


@pytest.mark.parametrize("op_type", ["RandomUniformLike", "RandomNormalLike"])
def test_each_run_draws_other_numbers(op_graph, runner, op_type):
    shape = np.array([4, 5], np.uint32)
    spec = Spec(DType.FLOAT_32, (4, 5))
    graph, _ = op_graph(op_type, [shape], static=(0,), specs=[spec])
    run = runner(graph)
    assert not np.array_equal(run(), run())
