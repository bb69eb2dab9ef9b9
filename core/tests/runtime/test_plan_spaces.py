"""Memory spaces: values that no array holds, in blocks, slots, forms and images."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from far_backend import SPACE, FarBackend, FarBlock, FarLayout, far_kernels, reorder
from msgspec.structs import replace
from plan_ops import OPS, SHAPE, Net, ramp, run

from dovetail.container import WeightStore
from dovetail.errors import ContainerError
from dovetail.ir import Blob, DType, Graph, Spec, Tensor, TensorKind
from dovetail.ops import check_ops
from dovetail.runtime.contract import Image, Options, PrepareRequest, RunControl
from dovetail.runtime.plan import PlanPrepared, Step, Storage, Value, build_plan, plan_arena
from dovetail.runtime.plan.arena import ArenaBuffers

X = ramp()


@pytest.fixture(autouse=True)
def nothing_allocated() -> None:
    SPACE.allocated.clear()


def prepared(net: Net, **kernels: bool) -> PlanPrepared:
    checked = check_ops(net.graph, OPS)
    plan = build_plan(checked, far_kernels(**kernels), WeightStore(), None, reorder=reorder)
    return PlanPrepared(plan)


def chain() -> Net:
    net = Net("x").node("Negate", ["x"], "a").node("Add", ["a", "x"], "b")
    return net.node("Copy", ["b"], "c").node("Negate", ["c"], "y", app=True)


def with_constant(kind: TensorKind = TensorKind.STATIC, shift: float = 0) -> Graph:
    net = Net("x").node("Negate", ["x"], "a")
    tensor = Tensor("w", DType.FLOAT_32, SHAPE, kind, data=Blob(ramp(shift)))
    net.graph.add_tensor(tensor)
    return net.node("Add", ["a", "w"], "y", app=True).graph


# -- the arena -------------------------------------------------------------------------------------


def test_values_of_a_space_are_in_one_block_of_it() -> None:
    found = prepared(chain())
    assert SPACE.allocated == [found.arena.sizes[SPACE]]
    assert found.arena.sizes[SPACE] % SPACE.alignment == 0
    assert all(at % SPACE.alignment == 0 for v, at in found.arena.offsets.items() if v.space)
    np.testing.assert_array_equal(run(found, {"x": X}, "y")[0], -(X - X))


def test_a_space_has_values_in_place_and_overlapping_ones() -> None:
    net = Net("x")
    for i, name in enumerate("abcd"):
        net.node("Negate", ["x" if i == 0 else "abcd"[i - 1]], name)
    net.node("Negate", ["d"], "y", app=True)
    shared, apart = (prepared(net, in_place=flag) for flag in (True, False))
    each = SPACE.alignment
    assert shared.arena.sizes[SPACE] == 2 * each  # a value and a scratchpad
    assert apart.arena.sizes[SPACE] == 3 * each
    alone = plan_arena(prepared(net, in_place=False).steps, shares=False)
    assert alone.sizes[SPACE] == (6 + 5) * each  # x, five results, and five scratchpads


def test_the_host_has_no_part_of_a_spaces_values() -> None:
    found = prepared(chain())
    assert {value.space for value in found.arena.offsets} == {SPACE}
    assert found.arena.nbytes == 0
    with pytest.raises(AssertionError, match="host's memory"):
        found._buffers.buffer(found.plan.inputs["x"])


def test_views_are_in_the_block_of_their_source() -> None:
    found = prepared(chain())
    (view,) = (s.writes[0] for s in found.steps if s.nodes == ("c",))
    source = view.root_and_offset[0]
    assert view.alias_of is not None
    assert found._buffers.buffer(view).block is found._buffers.buffer(source).block


def test_a_part_of_a_value_begins_where_both_say() -> None:
    first, whole = (
        Value(name, Spec(DType.UINT_8, (n,)), Storage.ARENA, FarLayout(n))
        for name, n in (("first", 512), ("whole", 256))
    )
    part = Value("part", Spec(DType.UINT_8, (8,)), Storage.ARENA, FarLayout(8), alias_of=whole)
    part.offset = 24
    arena = plan_arena([Step(("n",), (), (first, whole), lambda _: print)])
    found = ArenaBuffers(arena).buffer(part)
    assert (found.start, found.nbytes) == (512 + 24, 8)


def test_a_watched_run_shows_the_values() -> None:
    seen: dict[str, Any] = {}

    class Watch:
        def step_finished(self, nodes: Any, microseconds: float, outputs: Any) -> None:
            seen.update({name: np.array(array) for name, array in outputs.items()})

    found = prepared(chain(), in_place=False)
    found.run({"x": X}, {"y": np.empty(SHAPE, np.float32)}, RunControl(Watch()))
    np.testing.assert_array_equal(seen["a"], -X)


# -- forms and slots -------------------------------------------------------------------------------


def opened() -> tuple[FarBackend, Any]:
    backend = FarBackend(OPS, Options())
    return backend, backend.open_context(None, None, WeightStore())


def prepared_in(context: Any, graph: Graph) -> Any:
    return context.prepare(check_ops(graph, OPS), PrepareRequest())


def test_forms_of_constants_are_blocks_that_graphs_share() -> None:
    _, context = opened()
    first, second = (prepared_in(context, with_constant()) for _ in range(2))
    forms = [
        value.array for p in (first, second) for s in p.steps for value in s.reads if value.key
    ]
    assert isinstance(forms[0], FarBlock)
    assert forms[0] is forms[1]
    assert run(first, {"x": X}, "y")[0] == pytest.approx(ramp(0) - X)


def test_updates_write_slots_in_place() -> None:
    _, context = opened()
    graph = with_constant(TensorKind.UPDATEABLE_STATIC)
    found = prepared_in(context, graph)
    (slot,) = found.plan.slots
    block = slot.data
    assert isinstance(block, FarBlock)
    tensor = graph.tensors["w"]
    tensor.data = Blob(ramp(50))
    found.update([tensor])
    assert slot.data is block
    assert run(found, {"x": X}, "y")[0] == pytest.approx(ramp(50) - X)
    np.testing.assert_array_equal(slot.to_host().reshape(SHAPE), ramp(50) / 2)


def test_a_form_in_the_layout_of_a_space_is_made_by_a_reorder() -> None:
    net = Net("x")
    net.graph.add_tensor(Tensor("w", DType.FLOAT_32, SHAPE, TensorKind.STATIC, data=Blob(X)))
    found = prepared(net.node("Negate", ["w"], "a").node("Add", ["x", "a"], "y", app=True))
    assert run(found, {"x": X}, "y")[0] == pytest.approx(X - X)


# -- images ----------------------------------------------------------------------------------------


def restored(image: Image, graph: Graph, context: Any) -> Any:
    found = context.restore(image, lambda _: check_ops(graph, OPS), lambda _: PrepareRequest())
    return found["net"].prepared


@pytest.mark.parametrize("kind", [TensorKind.STATIC, TensorKind.UPDATEABLE_STATIC])
def test_images_hold_the_bytes_of_blocks(kind: TensorKind) -> None:
    backend, context = opened()
    first = prepared_in(context, with_constant(kind, 7))
    image = Image.from_bytes(context.image({"net": first}).to_bytes())
    other, context = opened()
    again = restored(image, with_constant(kind, 7), context)
    np.testing.assert_array_equal(*(run(p, {"x": X}, "y")[0] for p in (first, again)))
    assert (backend.restores, other.restores) == (0, 1)  # the backend's own data
    blocks = [value.array for s in again.steps for value in s.reads if value.array is not None]
    assert all(isinstance(block, FarBlock) for block in blocks)
    plan: Any = context.image({"net": again}).graphs["net"]
    assert plan["settings"]["own"] == {"restores": 1}


def altered(image: Image, change: Any) -> Image:
    plan: Any = image.graphs["net"]
    return replace(image, graphs={"net": change(plan)})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda p: p | {"offsets": [[n, at + 8] for n, at in p["offsets"]]}, "impossible offset"),
        (lambda p: p | {"offsets": [[n, at + 4096] for n, at in p["offsets"]]}, "impossible arena"),
        (
            lambda p: p | {"forms": [[[*key[:2], "near"], *rest] for key, *rest in p["forms"]]},
            "memory space 'near'",
        ),
        (lambda p: p | {"items": [[name, [8]] for name, _ in p["items"]]}, "bytes|exceeds|shape"),
    ],
)
def test_damaged_images_are_rejected(change: Any, reason: str) -> None:
    _, context = opened()
    image = context.image({"net": prepared_in(context, with_constant())})
    with pytest.raises(ContainerError, match=reason):
        restored(altered(image, change), with_constant(), opened()[1])


# -- runs that overlap -----------------------------------------------------------------------------


def test_overlapping_runs_have_buffers_of_their_own() -> None:
    _, context = opened()
    found = prepared_in(context, with_constant())
    ended, outputs = threading.Semaphore(0), []
    errors: list[BaseException | None] = []

    def done(error: BaseException | None) -> None:
        errors.append(error)
        ended.release()

    for i in range(6):
        outputs.append(np.empty(SHAPE, np.float32))
        found.submit({"x": ramp(i)}, {"y": outputs[-1]}, RunControl(), done)
    for _ in range(6):
        assert ended.acquire(timeout=30)
    assert errors == [None] * 6
    for i, output in enumerate(outputs):
        assert output == pytest.approx(ramp(0) - ramp(i))
    names = [thread.name for thread in threading.enumerate()]
    assert any("overlapped" in name for name in names)
    found.close()
    assert not any("overlapped" in thread.name for thread in threading.enumerate())


def test_overlapping_runs_use_updates() -> None:
    _, context = opened()
    graph = with_constant(TensorKind.UPDATEABLE_STATIC)
    found, ended = prepared_in(context, graph), threading.Event()

    def submitted() -> np.ndarray:
        output = np.empty(SHAPE, np.float32)
        ended.clear()
        found.submit({"x": X}, {"y": output}, RunControl(), lambda _: ended.set())
        assert ended.wait(30)
        return output

    assert submitted() == pytest.approx(ramp(0) - X)
    graph.tensors["w"].data = Blob(ramp(9))
    found.update([graph.tensors["w"]])
    assert submitted() == pytest.approx(ramp(9) - X)
    found.close()


def test_a_stopped_run_that_overlaps_ends_with_its_error() -> None:
    _, context = opened()
    found, ended = prepared_in(context, with_constant()), threading.Event()
    errors: list[BaseException | None] = []
    control = RunControl()
    control.stop()

    def done(error: BaseException | None) -> None:
        errors.append(error)
        found.close()  # as an application may, in the thread of the run
        ended.set()

    found.submit({"x": X}, {"y": np.empty(SHAPE, np.float32)}, control, done)
    assert ended.wait(30)
    assert getattr(errors[0], "code", "") == "GRAPH_ERROR_ABORTED"
