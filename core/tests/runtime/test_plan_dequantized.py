"""Fixed-point nodes through float kernels: what `simulate` gives, in one step of the plan."""

from __future__ import annotations

import numpy as np
import pytest
from plan_ops import OPS, SHAPE, Engine, add, kernels, negate, negate_backwards

from dovetail.container import WeightStore
from dovetail.ir import (
    AxisScaleOffset,
    DType,
    Encoding,
    Graph,
    Node,
    ScaleOffset,
    Spec,
    Tensor,
    TensorKind,
)
from dovetail.ops import bind_node, check_ops, simulate
from dovetail.runtime.contract import RunControl
from dovetail.runtime.plan import KernelCall, KernelRegistry, PlanPrepared, Step, build_plan

FIXED = Spec(DType.UFIXED_POINT_8, SHAPE, ScaleOffset(0.1, -100))
COARSE = Spec(DType.SFIXED_POINT_8, SHAPE, ScaleOffset(0.3))
HALF = Spec(DType.FLOAT_16, SHAPE)
FLOAT = Spec(DType.FLOAT_32, SHAPE)
STORED = np.array([[0, 50, 99], [100, 101, 255]], np.uint8)


def of_floats(make):
    """Return a kernel that takes floats alone, as those of a float backend do, and what it saw."""
    seen: list[KernelCall] = []

    def kernel(call: KernelCall) -> Step | None:
        tensors = [t for t in (*call.tensors, *call.outputs) if t is not None]
        if any(t.dtype is not DType.FLOAT_32 for t in tensors):
            return None
        seen.append(call)
        return make(call)

    return kernel, seen


def one(op_type: str, ins: list[Spec | np.ndarray], out: Spec) -> Graph:
    """Create a graph of one node; arrays are stored values of static COARSE tensors."""
    graph = Graph("one")
    tensors = []
    for i, each in enumerate(ins):
        name = f"x{i}"
        if isinstance(each, Spec):
            tensor = Tensor(name, each.dtype, SHAPE, TensorKind.APP_WRITE, encoding=each.encoding)
        else:
            tensor = Tensor.static(name, each, COARSE.dtype, encoding=COARSE.encoding)
        tensors.append(graph.add_tensor(tensor))
    made = Tensor("y", out.dtype, SHAPE, TensorKind.APP_READ, encoding=out.encoding)
    graph.add_node(Node("node", "plan.ops", op_type, tensors, [graph.add_tensor(made)]))
    return graph


def expected(graph: Graph, feeds: dict[str, np.ndarray]) -> np.ndarray:
    (node,) = graph.nodes
    schema = OPS.find("plan.ops", node.op_type)
    ins = [feeds[t.name] if t.name in feeds else t.stored() for t in node.inputs]
    specs = [t.spec for t in node.inputs]
    (result,) = simulate(
        schema, bind_node(schema, node), ins, specs, [t.spec for t in node.outputs]
    )
    return result


def check(graph: Graph, registry, feeds, *, engine: Engine | None = None) -> PlanPrepared:
    """Run twice into memory full of rubbish, and compare with the meaning."""
    reorder = None if engine is None else engine.reorder
    plan = build_plan(check_ops(graph, OPS), registry, WeightStore(), None, reorder=reorder)
    prepared = PlanPrepared(plan)
    before = {name: x.copy() for name, x in feeds.items()}
    for rubbish in (0x55, 0xFF):
        out = np.empty(SHAPE, graph.outputs[0].dtype.storage)
        out.reshape(-1).view(np.uint8).fill(rubbish)
        prepared.run(feeds, {"y": out}, RunControl())
        np.testing.assert_array_equal(out, expected(graph, before))
    for name, x in before.items():
        np.testing.assert_array_equal(feeds[name], x, err_msg="an input was written")
    return prepared


def modules(prepared: PlanPrepared) -> list[str]:
    return [step.bind.__module__.rpartition(".")[2] for step in prepared.steps]


@pytest.mark.parametrize("out", [FIXED, COARSE, HALF, FLOAT], ids=lambda s: s.dtype.name)
def test_a_float_kernel_computes_what_is_stored_as_fixed_point(out: Spec) -> None:
    kernel, seen = of_floats(negate)
    prepared = check(one("Negate", [FIXED], out), kernels(Negate=kernel), {"x0": STORED})
    assert modules(prepared) == ["dequantized"]
    assert prepared.steps[0].nodes == ("node",)
    assert [call.spec(0) for call in seen] == [FLOAT]


@pytest.mark.parametrize("chosen", ["first second", "first", "second", ""])
def test_the_backend_chooses_the_nodes_on_integers(chosen: str) -> None:
    """A chain is one step only if its nodes alone would have run by the same table."""
    graph, middle = Graph("two"), Tensor("m", FIXED.dtype, SHAPE, encoding=FIXED.encoding)
    x = Tensor("x", FIXED.dtype, SHAPE, TensorKind.APP_WRITE, encoding=FIXED.encoding)
    y = Tensor("y", FIXED.dtype, SHAPE, TensorKind.APP_READ, encoding=FIXED.encoding)
    for tensor in (x, middle, y):
        graph.add_tensor(tensor)
    for name, read, write in (("first", x, middle), ("second", middle, y)):
        graph.add_node(Node(name, "plan.ops", "Copy", [read], [write]))
    registry = KernelRegistry("test", lambda view: view.node.name in chosen.split())

    def move(call: KernelCall) -> Step:
        source, target = call.read(0), call.write()
        return call.step(lambda b: lambda: np.copyto(b.array(target), b.array(source)))

    register = registry.register(
        "plan.ops", "Copy", can_fuse=lambda chain, after: True, quantized=True
    )
    register(move)
    copied = registry.for_backend("copy").with_fallback(KernelRegistry("other"))
    for kernels_of in (registry, copied):
        plan = build_plan(check_ops(graph, OPS), kernels_of, WeightStore(), None)
        ways = {name: step.bind.__module__ for step in plan.steps for name in step.nodes}
        assert {n for n, way in ways.items() if "reference" not in way} == set(chosen.split())
        assert len(plan.steps) == (1 if chosen == "first second" else 2)


def test_the_engines_layouts_stay_inside() -> None:
    kernel, _ = of_floats(negate_backwards)
    engine = Engine()
    graph = one("Negate", [FIXED], COARSE)
    prepared = check(graph, kernels(Negate=kernel), {"x0": STORED}, engine=engine)
    assert modules(prepared) == ["dequantized"]
    assert engine.reorders == 2


def test_what_is_static_is_real_when_the_kernel_sees_it() -> None:
    kernel, seen = of_floats(add)
    weights = np.array([[-128, -1, 0], [1, 2, 127]], np.int8)
    prepared = check(one("Add", [FIXED, weights], FIXED), kernels(Add=kernel), {"x0": STORED})
    (call,) = seen
    np.testing.assert_array_equal(call.static(1), weights * np.float32(0.3))
    assert [v.name for v in prepared.steps[0].reads] == ["x0"]


@pytest.mark.parametrize(
    "encoding",
    [AxisScaleOffset(1, np.array([0.1, 0.2, 0.3], np.float32), np.array([-9, 0, -100], np.int32))],
)
def test_an_axis_has_scales_of_its_own(encoding: Encoding) -> None:
    kernel, seen = of_floats(add)
    spec = Spec(DType.UFIXED_POINT_8, SHAPE, encoding)
    feeds = {"x0": STORED, "x1": STORED[::-1].copy()}
    check(one("Add", [spec, FIXED], spec), kernels(Add=kernel), feeds)
    assert len(seen) == 1


def test_floats_beside_fixed_point_go_to_the_kernel_as_they_are() -> None:
    kernel, seen = of_floats(add)
    feeds = {"x0": STORED, "x1": np.array([[1, -2, 3.3], [0, np.inf, np.nan]], np.float32)}
    check(one("Add", [FIXED, FLOAT], FIXED), kernels(Add=kernel), feeds)
    assert len(seen) == 1


def test_a_kernel_that_declines_leaves_the_reference() -> None:
    graph, feeds = one("Negate", [FIXED], FIXED), {"x0": STORED}
    check(graph, kernels(Negate=lambda call: None), feeds)
    assert modules(check(graph, kernels(), feeds)) == ["reference"]


def test_half_floats_alone_are_no_matter_of_simulation() -> None:
    kernel, seen = of_floats(negate)
    prepared = check(
        one("Negate", [HALF], HALF), kernels(Negate=kernel), {"x0": STORED.astype(np.float16)}
    )
    assert modules(prepared) == ["reference"]
    assert not seen


def test_fixed_point_without_an_encoding_is_what_is_stored():
    """There is no real value to compute with; building must come to an end all the same."""
    bare = Spec(DType.UFIXED_POINT_8, SHAPE)
    kernel, seen = of_floats(negate)
    graph = one("Copy", [bare], bare)
    check(graph, kernels(Copy=kernel), {"x0": STORED})
    assert seen == []
