"""The executor: binding, running, watching, stopping, failing."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from plan_ops import (
    SHAPE,
    Engine,
    Net,
    add,
    kernels,
    negate,
    negate_backwards,
    ramp,
    run,
)

from dovetail.errors import BackendError, OpError
from dovetail.runtime.contract import RunControl

X = ramp()


class Log:
    """A watch that keeps what it is told."""

    def __init__(self, then=lambda: None):
        self.steps = []
        self.then = then

    def step_finished(self, nodes, microseconds, outputs):
        assert microseconds >= 0
        self.steps.append((nodes, {name: array.copy() for name, array in outputs.items()}))
        self.then()


def three():
    """y = -(-(-x)), and its two steps between."""
    net = Net("x")
    return (
        net.node("Negate", ["x"], "a")
        .node("Negate", ["a"], "b")
        .node("Negate", ["b"], "y", app=True)
    )


def test_new_buffers_are_bound():
    prepared = three().prepared(kernels(Negate=negate))
    results = [run(prepared, {"x": ramp(i)}, "y")[0] for i in range(4)]
    for i, result in enumerate(results):  # each in its own array, none overwritten later
        np.testing.assert_array_equal(result, -ramp(i))


def test_only_steps_that_touch_new_buffers_are_bound_again():
    bound = []

    def counting(call):
        step = negate(call)
        inner = step.bind
        msgspec.structs.force_setattr(step, "bind", lambda b: bound.append(step.nodes) or inner(b))
        return step

    prepared = three().prepared(kernels(Negate=counting))
    assert bound == [("b",)]  # the only one that no buffer of the application concerns
    x, y, control = X.copy(), np.empty(SHAPE, np.float32), RunControl()
    prepared.run({"x": x}, {"y": y}, control)
    assert sorted(bound) == [("a",), ("b",), ("y",)]
    bound.clear()
    x[:] = ramp(40)
    prepared.run({"x": x}, {"y": y}, control)
    assert bound == []
    np.testing.assert_array_equal(y, -ramp(40))
    prepared.run({"x": x}, {"y": np.empty(SHAPE, np.float32)}, control)
    assert bound == [("y",)]


def test_a_result_in_place_keeps_the_applications_input():
    x = X.copy()
    net = Net("x").node("Negate", ["x"], "a").node("Add", ["a", "x"], "y", app=True)
    prepared = net.prepared(kernels(Negate=negate, Add=add))
    np.testing.assert_array_equal(run(prepared, {"x": x}, "y")[0], np.zeros(SHAPE))
    np.testing.assert_array_equal(x, X)


def test_an_op_that_writes_its_input_is_refused():
    x = X.copy()
    prepared = Net("x").node("Spoil", ["x"], "y", app=True).prepared(kernels())
    with pytest.raises(BackendError, match=r"node y: .*read-only"):
        run(prepared, {"x": x}, "y")
    np.testing.assert_array_equal(x, X)


def test_a_long_chain_in_place_has_one_place():
    net = Net("x").node("Negate", ["x"], "t0")
    for i in range(9):
        net.node("Negate", [f"t{i}"], f"t{i + 1}")
    prepared = net.node("Negate", ["t9"], "y", app=True).prepared(kernels(Negate=negate))
    assert prepared.arena.nbytes == 64
    np.testing.assert_array_equal(run(prepared, {"x": X}, "y")[0], -X)


def test_a_watch_hears_of_every_step_and_what_it_wrote():
    prepared, log = three().prepared(kernels(Negate=negate)), Log()
    prepared.run({"x": X}, {"y": np.empty(SHAPE, np.float32)}, RunControl(log))
    assert [nodes for nodes, _ in log.steps] == [("a",), ("b",), ("y",)]
    for (_, outputs), (name, sign) in zip(log.steps, (("a", -1), ("b", 1), ("y", -1)), strict=True):
        np.testing.assert_array_equal(outputs[name], sign * X)


def test_a_watch_sees_plain_values_whatever_the_layout():
    engine, log = Engine(), Log()
    prepared = three().prepared(kernels(Negate=negate_backwards), engine=engine)
    prepared.run({"x": X}, {"y": np.empty(SHAPE, np.float32)}, RunControl(log))
    assert [nodes for nodes, _ in log.steps] == [("a",), ("b",), ("y",)]  # reorders are no nodes
    np.testing.assert_array_equal(log.steps[1][1]["b"], X)


def test_watched_and_unwatched_runs_take_turns():
    prepared = three().prepared(kernels(Negate=negate))
    y = np.empty(SHAPE, np.float32)
    for i in range(4):
        prepared.run({"x": ramp(i)}, {"y": y}, RunControl(Log() if i % 2 else None))
        np.testing.assert_array_equal(y, -ramp(i))


def test_a_stopped_run_ends_before_its_next_step():
    prepared = three().prepared(kernels(Negate=negate))
    control = RunControl()
    control.watch = log = Log(control.stop)
    with pytest.raises(BackendError) as caught:
        prepared.run({"x": X}, {"y": np.empty(SHAPE, np.float32)}, control)
    assert caught.value.code == "GRAPH_ERROR_ABORTED"
    assert [nodes for nodes, _ in log.steps] == [("a",)]
    # and the next run is none the worse for it
    np.testing.assert_array_equal(run(prepared, {"x": X}, "y")[0], -X)


def test_a_run_stopped_before_it_begins_computes_nothing():
    prepared, control = three().prepared(kernels(Negate=negate)), RunControl()
    control.stop()
    y = np.full(SHAPE, 7, np.float32)
    with pytest.raises(BackendError):
        prepared.run({"x": X}, {"y": y}, control)
    assert (y == 7).all()


def test_a_run_that_takes_too_long_ends():
    prepared = three().prepared(kernels(Negate=negate))
    with pytest.raises(BackendError) as caught:
        prepared.run({"x": X}, {"y": np.empty(SHAPE, np.float32)}, RunControl(timeout_us=-1))
    assert caught.value.code == "GRAPH_ERROR_TIMED_OUT"


def failing(error):
    def make(call):
        if call.head.node.name != "b":
            return negate(call)
        call.read(0)
        call.write()

        def fail(x, out):
            raise error

        return call.array_step(fail)

    return kernels(Negate=make)


@pytest.mark.parametrize("watch", [None, Log()])
def test_a_kernel_that_fails_is_named(watch):
    error = ValueError("operands do not fit")
    prepared = three().prepared(failing(error))
    with pytest.raises(BackendError, match="ValueError: operands do not fit") as caught:
        prepared.run({"x": X}, {"y": np.empty(SHAPE, np.float32)}, RunControl(watch))
    assert caught.value.where == "node b"
    assert caught.value.__cause__ is error


def test_an_error_of_ours_keeps_its_kind_and_its_place():
    error = OpError("an index is out of range", where="Gather node 'b'")
    prepared = three().prepared(failing(error))
    with pytest.raises(OpError) as caught:
        run(prepared, {"x": X}, "y")
    assert caught.value.where == "Gather node 'b'"


def test_sections_and_updates_are_refused():
    prepared = three().prepared(kernels(Negate=negate))
    for call in (lambda: prepared.section(()), lambda: prepared.update([])):
        with pytest.raises(BackendError) as caught:
            call()
        assert caught.value.code.endswith("UNSUPPORTED_FEATURE")


def test_a_failed_bind_names_its_node_and_the_next_run_starts_afresh():
    def picky(call):
        reads, writes = call.read(0), call.write()

        def bind(buffers):
            x, y = buffers.array(reads), buffers.array(writes)
            if x[0, 0] < 0:
                raise ValueError("picky")
            return lambda: np.negative(x, out=y)

        return call.step(bind)

    prepared = Net("x").node("Negate", ["x"], "y", app=True).prepared(kernels(Negate=picky))
    y = np.empty(SHAPE, np.float32)
    for _ in range(2):  # the second time, nothing may be left of the first
        with pytest.raises(BackendError, match="ValueError: picky") as caught:
            prepared.run({"x": -X}, {"y": y}, RunControl())
        assert "y" in caught.value.where
    prepared.run({"x": X}, {"y": y}, RunControl())
    np.testing.assert_array_equal(y, -X)


def test_an_interrupt_while_a_step_is_bound_leaves_nothing_half_done():
    interrupts: list[type[BaseException]] = []

    def make(call):
        reads, writes = call.read(0), call.write()

        def bind(buffers):
            x, y = buffers.array(reads), buffers.array(writes)
            if interrupts:
                raise interrupts.pop()
            return lambda: np.negative(x, out=y)

        return call.step(bind)

    net = Net("x").node("Negate", ["x"], "t").node("Negate", ["t"], "y", app=True)
    prepared = net.prepared(kernels(Negate=make))
    y = np.empty(SHAPE, np.float32)
    interrupts.append(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        prepared.run({"x": X}, {"y": y}, RunControl())
    for x in (X, X + 1):  # the result's place is the same as then
        prepared.run({"x": x}, {"y": y}, RunControl())
        np.testing.assert_array_equal(y, x)


def test_what_a_watch_raises_is_no_kernels_fault():
    class Broken:
        def step_finished(self, nodes, microseconds, outputs):
            raise KeyError("in the watch")

    prepared = three().prepared(kernels(Negate=negate))
    with pytest.raises(KeyError, match="in the watch"):
        prepared.run({"x": X}, {"y": np.empty(SHAPE, np.float32)}, RunControl(Broken()))
