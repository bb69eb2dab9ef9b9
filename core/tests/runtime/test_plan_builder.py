"""The builder: grouping, falling back, layouts, views, and the registry of kernels."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from plan_ops import (
    OPS,
    Backwards,
    Engine,
    Net,
    add,
    kernels,
    negate,
    negate_backwards,
    plain,
    ramp,
    run,
)

from dovetail.errors import PluginError, UnsupportedOpError
from dovetail.ir import Tensor, TensorKind
from dovetail.runtime.plan import Branch, KernelCall, KernelRegistry, Step, Storage

X = ramp()


def names(prepared):
    return [s.nodes for s in prepared.steps]


# -- grouping --------------------------------------------------------------------------------------


def absorbing(refuses=()):
    """Return kernels where Add takes the Negates and Adds behind it along."""
    calls: list[KernelCall] = []
    registry = kernels(Negate=negate)

    def make(call: KernelCall) -> Step | None:
        if len(call.fused) in refuses:
            return None
        calls.append(call)
        a, b = call.read(0), call.read(1)
        third = call.read(2) if call.has(2) else None
        others = [[None if i is None else call.read(i) for i in t.operands] for t in call.fused]
        out = call.write()

        def bind(buffers):
            def compute():
                result = buffers.array(a) + buffers.array(b)
                if third is not None:
                    result = result + buffers.array(third)
                for link, operands in zip(call.fused, others, strict=True):
                    if link.view.op_type == "Negate":
                        result = -result
                    else:
                        result = sum(result if v is None else buffers.array(v) for v in operands)
                np.copyto(buffers.array(out), result)

            return compute

        return call.step(bind)

    def can_fuse(chain, after):
        return after.op_type in ("Negate", "Add")

    registry.register("plan.ops", "Add", can_fuse=can_fuse)(make)
    return registry, calls


def residual():
    """r = -(a + b) + n, where n = -x is made after a and b are."""
    net = Net("a", "b", "x")
    net.node("Add", ["a", "b"], "s").node("Negate", ["s"], "m")
    net.node("Negate", ["x"], "n").node("Add", ["n", "m"], "r", app=True)
    return net


FEEDS = {"a": X, "b": ramp(10), "x": ramp(100)}


def test_a_chain_is_one_step_where_its_last_node_stands():
    registry, calls = absorbing()
    prepared = residual().prepared(registry)
    assert names(prepared) == [("n",), ("s", "m", "r")]
    (out,) = run(prepared, FEEDS, "r")
    np.testing.assert_array_equal(out, -(FEEDS["a"] + FEEDS["b"]) - FEEDS["x"])
    # operands of the tail lie behind the head's three declared inputs, the optional one included
    assert [t.operands for t in calls[0].fused] == [(None,), (3, None)]


def test_without_fusing_each_node_is_a_step():
    registry, _ = absorbing()
    prepared = residual().prepared(registry, fuse=False)
    assert names(prepared) == [("s",), ("m",), ("n",), ("r",)]
    np.testing.assert_array_equal(
        run(prepared, FEEDS, "r")[0], -(FEEDS["a"] + FEEDS["b"]) - FEEDS["x"]
    )


def test_a_kernel_that_refuses_a_chain_gets_its_nodes_alone():
    registry, _ = absorbing(refuses=(2,))
    prepared = residual().prepared(registry)
    assert names(prepared) == [("n",), ("s",), ("m",), ("r",)]
    np.testing.assert_array_equal(
        run(prepared, FEEDS, "r")[0], -(FEEDS["a"] + FEEDS["b"]) - FEEDS["x"]
    )


@pytest.mark.parametrize("reason", ["output", "two readers", "one reader twice"])
def test_a_result_that_is_needed_is_not_absorbed(reason):
    registry, _ = absorbing()
    net = Net("a", "b")
    net.node("Add", ["a", "b"], "s", app=reason == "output")
    if reason == "one reader twice":
        net.node("Add", ["s", "s"], "r", app=True)
    else:
        net.node("Negate", ["s"], "r", app=True)
    if reason == "two readers":
        net.node("Negate", ["s"], "q", app=True)
    prepared = net.prepared(registry)
    assert names(prepared)[0] == ("s",)
    outs = {"output": ["s", "r"], "two readers": ["r", "q"]}.get(reason, ["r"])
    found = dict(zip(outs, run(prepared, FEEDS, *outs), strict=True))
    s = FEEDS["a"] + FEEDS["b"]
    expected = {"s": s, "r": 2 * s if reason == "one reader twice" else -s, "q": -s}
    for name, out in found.items():
        np.testing.assert_array_equal(out, expected[name])


def test_a_left_out_input_keeps_its_place():
    registry, calls = absorbing()
    net = Net("a", "b").node("Add", ["a", "b", None], "s", app=True)
    run(net.prepared(registry), FEEDS, "s")
    assert calls[0].tensors[2] is None
    assert not calls[0].has(2)


BRANCH = [(1, "b"), (2, "r")]


def branching(branch):
    """Return kernels where Negate takes a branch and what joins it along."""
    asked = []
    registry = KernelRegistry("test")

    def make(call: KernelCall) -> Step | None:
        if not call.fused:
            return negate(call)
        operand = call.fused[0].operands[0]
        assert (call.fused[0].joins, call.fused[1].joins) == (False, True)
        assert call.fused[1].operands == (None, None)
        call.read(0)
        if operand is not None:
            call.read(operand)
        call.write()
        # a gate negates once more what is negated: nothing is left of the sum
        factor = -2 if operand is not None else 0
        return call.array_step(lambda *arrays: np.multiply(arrays[0], factor, arrays[-1]))

    def can_fuse(chain, after):
        asked.append((len(chain), after.node.name))
        return asked[-1] in BRANCH

    registry.register("plan.ops", "Negate", can_fuse=can_fuse, branch=branch)(make)
    return registry, asked


def gated():
    """r = -x + -(-x)."""
    net = Net("x").node("Negate", ["x"], "a")
    return net.node("Negate", ["a"], "b").node("Add", ["b", "a"], "r", app=True)


def stacked():
    """r = -(-x) + z."""
    net = Net("x", "z").node("Negate", ["x"], "a").node("Negate", ["a"], "b")
    return net.node("Add", ["b", "z"], "r", app=True)


def twins(*, first="x", second="x", app=()):
    """r = -x + -x."""
    net = Net("x", "z").node("Negate", [first], "a", app="a" in app)
    net.node("Negate", [second], "b", app="b" in app)
    return net.node("Add", ["b", "a"], "r", app=True)


@pytest.mark.parametrize(
    ("branch", "net", "factor"), [(Branch.GATE, gated, 0), (Branch.SIBLING, twins, -2)]
)
def test_a_branch_runs_with_what_joins_it(branch, net, factor):
    registry, asked = branching(branch)
    prepared = net().prepared(registry)
    assert names(prepared) == [("a", "b", "r")]
    assert asked == BRANCH
    np.testing.assert_array_equal(run(prepared, {"x": X, "z": X}, "r")[0], factor * X)


@pytest.mark.parametrize(
    ("branch", "net"),
    [
        (None, gated),
        (None, twins),
        (Branch.GATE, twins),
        (Branch.SIBLING, gated),
        (Branch.SIBLING, stacked),
        (Branch.SIBLING, functools.partial(twins, second="z")),
        (Branch.SIBLING, functools.partial(twins, app="a")),
        (Branch.SIBLING, functools.partial(twins, app="b")),
    ],
)
def test_what_is_no_such_branch_runs_alone(branch, net):
    registry, asked = branching(branch)
    prepared = net().prepared(registry)
    assert BRANCH[1] not in asked
    assert branch is not Branch.SIBLING or not asked
    assert ("a",) in names(prepared)
    assert ("b",) in names(prepared)


# -- falling back ----------------------------------------------------------------------------------


def test_a_kernel_that_refuses_leaves_the_reference():
    net = Net("x").node("Negate", ["x"], "y", app=True)
    prepared = net.prepared(kernels(Negate=lambda call: None))
    np.testing.assert_array_equal(run(prepared, {"x": X}, "y")[0], -X)


def test_a_kernel_that_declares_and_refuses_is_an_error():
    def make(call: KernelCall) -> None:
        call.scratch(64)

    net = Net("x").node("Negate", ["x"], "y", app=True)
    with pytest.raises(AssertionError, match=r"'y'.* declared and declined"):
        net.prepared(kernels(Negate=make))


def test_no_kernels_at_all():
    prepared = residual().prepared(KernelRegistry("test"))
    np.testing.assert_array_equal(
        run(prepared, FEEDS, "r")[0], -(FEEDS["a"] + FEEDS["b"]) - FEEDS["x"]
    )


# -- layouts ---------------------------------------------------------------------------------------


def layouts(engine, *, app_in_the_middle=False):
    net = Net("x")
    net.node("Negate", ["x"], "a").node("Negate", ["a"], "b", app=app_in_the_middle)
    net.node("Negate", ["b"], "y", app=True)
    return net.prepared(kernels(Negate=negate_backwards), engine=engine)


def test_a_layout_runs_through_and_is_left_at_the_ends():
    engine = Engine()
    prepared = layouts(engine)
    assert names(prepared) == [(), ("a",), ("b",), ("y",), ()]
    assert engine.reorders == 2
    np.testing.assert_array_equal(run(prepared, {"x": X}, "y")[0], -X)


def test_an_output_in_the_middle_is_read_in_the_engines_layout_too():
    engine = Engine()
    prepared = layouts(engine, app_in_the_middle=True)
    b, y = run(prepared, {"x": X}, "b", "y")
    np.testing.assert_array_equal(b, X)
    np.testing.assert_array_equal(y, -X)
    assert engine.reorders == 3


def test_one_reorder_serves_all_readers():
    engine = Engine()
    net = Net("x")
    net.node("Negate", ["x"], "a", app=True).node("Negate", ["x"], "b", app=True)
    prepared = net.prepared(kernels(Negate=negate_backwards), engine=engine)
    assert [n for n in names(prepared) if n == ()] == [()] * 3  # x once, both results
    for out in run(prepared, {"x": X}, "a", "b"):
        np.testing.assert_array_equal(out, -X)


def test_the_reference_reads_and_writes_plain_values_between_layouts():
    net = Net("x")
    net.node("Negate", ["x"], "a").node("Copy", ["a"], "b").node("Negate", ["b"], "y", app=True)
    prepared = net.prepared(kernels(Negate=negate_backwards), engine=Engine())
    np.testing.assert_array_equal(run(prepared, {"x": X}, "y")[0], X)


@pytest.mark.parametrize("kind", [TensorKind.STATIC, TensorKind.UPDATEABLE_STATIC])
def test_a_constant_is_brought_into_a_layout(kind):
    """Once, before the first run: an updateable one is in a slot."""
    net = Net("x")
    net.graph.add_tensor(Tensor.static("c", ramp(50))).kind = kind
    net.node("Negate", ["c"], "d").node("Add", ["x", "d"], "y", app=True)
    prepared = net.prepared(kernels(Negate=negate_backwards, Add=add), engine=Engine())
    np.testing.assert_array_equal(run(prepared, {"x": X}, "y")[0], X - ramp(50))
    assert [n for n in names(prepared) if n == ()] == [()]  # d's


def test_a_kernel_sees_the_layout_that_its_input_is_in():
    seen = []

    def look(call):
        seen.append(call.layout(0))
        return negate(call)

    net = Net("x").node("Negate", ["x"], "a").node("Copy", ["a"], "y", app=True)
    net.prepared(kernels(Negate=negate_backwards, Copy=look), engine=Engine())
    assert seen == [Backwards(24)]


# -- views -----------------------------------------------------------------------------------------


def view_or_copy(call):
    step = call.view(0)
    if step is not None:
        return step
    call.read(0)
    call.write()
    return call.array_step(lambda x, out: np.copyto(out, x))


def test_a_view_shares_the_bytes_of_its_source():
    net = Net("x")
    net.node("Negate", ["x"], "a").node("Copy", ["a"], "v").node("Add", ["v", "a"], "y", app=True)
    prepared = net.prepared(kernels(Negate=negate, Copy=view_or_copy, Add=add))
    view = prepared.steps[1].writes[0]
    assert view.root is prepared.steps[0].writes[0]
    np.testing.assert_array_equal(run(prepared, {"x": X}, "y")[0], -2 * X)


def test_an_output_of_the_application_is_no_view():
    net = Net("x").node("Negate", ["x"], "a").node("Copy", ["a"], "y", app=True)
    prepared = net.prepared(kernels(Negate=negate, Copy=view_or_copy))
    assert prepared.steps[1].writes[0].root.storage is Storage.OUTPUT
    np.testing.assert_array_equal(run(prepared, {"x": X}, "y")[0], -X)


def test_what_a_view_shows_is_not_overwritten_in_place():
    net = Net("x")
    net.node("Negate", ["x"], "a").node("Copy", ["a"], "v")
    net.node("Negate", ["a"], "b").node("Add", ["b", "v"], "y", app=True)
    prepared = net.prepared(kernels(Negate=negate, Copy=view_or_copy, Add=add))
    np.testing.assert_array_equal(run(prepared, {"x": X}, "y")[0], np.zeros_like(X))


# -- calls and the registry ------------------------------------------------------------------------


def test_static_data_are_known_unless_they_may_change():
    seen = []

    def look(call):
        seen.append(call.static(1) is None)
        return add(call)

    for kind in (TensorKind.STATIC, TensorKind.UPDATEABLE_STATIC):
        net = Net("x")
        net.graph.add_tensor(Tensor.static("c", X)).kind = kind
        net.node("Add", ["x", "c"], "y", app=True).prepared(kernels(Add=look))
    assert seen == [False, True]


def test_packed_forms_are_shared_by_content_and_spec_only():
    made = []

    def pack(call):
        packed = call.packed(1, "doubled", lambda arrays, _: made.append(1) or arrays[0] * 2)
        assert packed.shape == call.spec(1).shape
        return add(call)

    net = Net("x")
    for name, values in (("c", X), ("d", X.copy()), ("e", X[:1].copy())):
        net.graph.add_tensor(Tensor.static(name, values))
    net.node("Add", ["x", "c"], "p").node("Add", ["p", "d"], "q").node("Add", ["q", "e"], "r")
    prepared = net.node("Add", ["r", "e"], "y", app=True).prepared(kernels(Add=pack))
    assert len(made) == 2  # c and d are one; e, which is another shape, is itself twice
    np.testing.assert_array_equal(run(prepared, {"x": X}, "y")[0], 3 * X + 2 * X[:1])


def test_forms_of_several_inputs_are_shared_where_all_are_equal():
    made = []

    def pack(call):
        def joined(arrays, specs):
            made.append(call.head.node.name)
            return np.stack([array for array in arrays if array is not None])

        packed = call.packed((1, 2), "joined", joined)
        assert len(packed) == 1 + call.has(2)
        return None

    net = Net("x")
    for name, values in (("c", X), ("d", X.copy()), ("e", X + 1)):
        net.graph.add_tensor(Tensor.static(name, values))
    operands = {"p": "ce", "q": "de", "r": "ed", "s": "c", "t": "d"}
    for name, (first, *second) in operands.items():
        net.node("Add", ["x", first, *second], name, app=True)
    net.prepared(kernels(Add=pack))
    assert made == ["p", "r", "s"]  # q's content is p's, t's is s's


def test_constants_and_scratchpads_come_after_reads_and_writes():
    def scaled(call):
        call.read(0)
        call.constant(np.full(3, 10, np.float32))
        call.write()
        call.scratch(24)

        def compute(x, factors, out, scratch):
            rows = scratch.view(np.float32).reshape(2, 3)
            np.multiply(x, factors, out=rows)
            np.copyto(out, rows)

        return call.array_step(compute)

    net = Net("x").node("Copy", ["x"], "y", app=True)
    np.testing.assert_array_equal(run(net.prepared(kernels(Copy=scaled)), {"x": X}, "y")[0], 10 * X)


def test_two_kernels_for_one_op_are_refused():
    registry = kernels(Negate=negate)
    with pytest.raises(PluginError, match=r"duplicate test kernel for plan\.ops::Negate"):
        registry.register("plan.ops", "Negate")(negate)
    with pytest.raises(PluginError, match="duplicate test kernel"):
        registry.joined(kernels(Negate=negate))


def test_joined_registries_have_both_and_stay_as_they_were():
    one, other = kernels(Negate=negate), kernels(Add=add)
    both = one.joined(other)
    assert set(both) == {("plan.ops", "Negate"), ("plan.ops", "Add")}
    assert set(one) == {("plan.ops", "Negate")}
    both.check(OPS)


def test_a_kernel_for_no_op_is_found():
    with pytest.raises(UnsupportedOpError, match="op 'Nigate' not found"):
        kernels(Nigate=negate).check(OPS)


def test_the_helper_layout_is_really_another_one():
    """The tests above would pass with a layout equal to the plain one."""

    class Bytes:
        def array(self, value):
            return np.frombuffer(X.tobytes(), np.uint8)

    net = Net("x").node("Negate", ["x"], "y", app=True)
    prepared = net.prepared(kernels(Negate=negate_backwards), engine=Engine())
    value = prepared.steps[1].reads[0]
    assert plain(Bytes(), value).tolist() == X.reshape(-1)[::-1].tolist()
