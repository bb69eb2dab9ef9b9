"""Images whose checksums are right and whose plans were written by an attacker."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from dovetail.container import WeightStore
from dovetail.errors import ContainerError
from dovetail.ir import DType, Graph, Tensor, TensorKind
from dovetail.ops import CheckedGraph, OpRegistry, check_ops
from dovetail.runtime.contract import Image, PrepareRequest, RunControl
from dovetail.runtime.plan.slots import Slot
from dovetail_cpu import CpuBackend, CpuOptions, EngineChoice
from dovetail_onednn._api import Arg
from dovetail_opset import PACKAGE
from dovetail_opset.build import add, static

ITEMS, VALUES, STEPS, OFFSETS = "items", "values", "steps", "offsets"
READS, WRITES, BUILDER, DATA = 1, 2, 4, 5  # of a step
OPS = OpRegistry.of(PACKAGE)


def small() -> Graph:
    """Two convolutions with weights, and the sum of their results."""
    rng = np.random.default_rng(3)
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (1, 12, 12, 16), TensorKind.APP_WRITE))
    made = [x]
    for name in ("first", "second"):
        w = static(graph, f"{name}.w", rng.standard_normal((3, 3, 16, 16), np.float32))
        params = {"stride": (1, 1), "pad_amount": ((1, 1), (1, 1))}
        made.append(add(graph, "Conv2d", [made[-1], w], name=name, **params))
    add(graph, "ElementWiseAdd", made[1:], name="sum").kind = TensorKind.APP_READ
    return graph


def pooled() -> Graph:
    """A pooling of so many elements that their NaN are searched by a primitive."""
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (1, 64, 64, 64), TensorKind.APP_WRITE))
    window = {"filter_size": (2, 2), "stride": (2, 2), "pad_amount": ((0, 0), (0, 0))}
    add(graph, "PoolMax2d", [x], name="y", **window).kind = TensorKind.APP_READ
    return graph


def turned() -> Graph:
    """Steps of NumPy, which are made again."""
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (2, 8), TensorKind.APP_WRITE))
    y = add(graph, "ElementWiseSin", [x], name="sin")
    params = {"axis": 1, "exclusive": False, "reverse": False}
    add(graph, "CumulativeSum", [y], name="sums", **params).kind = TensorKind.APP_READ
    return graph


def opened() -> Any:
    return CpuBackend(OPS, CpuOptions()).open_context(None, None, WeightStore())


def image_of(graph: Graph) -> Image:
    context = opened()
    prepared = context.prepare(check_ops(graph, OPS), PrepareRequest())
    return Image.from_bytes(context.image({"net": prepared}).to_bytes())


def plan_of(image: Image) -> Any:
    return msgspec.json.decode(msgspec.json.encode(image.graphs["net"]))


def rejection(image: Image, plan: Any, graph: Graph | None = None) -> str:
    """Return the message of the error that a plan raises."""
    give = None if graph is None else lambda _: check_ops(graph, OPS)
    altered = replace(image, graphs={"net": plan})
    with pytest.raises(ContainerError) as caught:
        opened().restore(altered, give, lambda _: PrepareRequest())
    assert caught.value.where
    return caught.value.message


def executions(plan: Any) -> list[Any]:
    return [step for step in plan[STEPS] if step[BUILDER] == "onednn.execute"]


def arguments(step: Any) -> list[Any]:
    found: list[Any] = step[DATA][0][0][1]
    return found


def number_of(plan: Any, storage: str) -> int:
    return next(i for i, value in enumerate(plan[VALUES]) if value[3] == storage)


def poisoned(image: Image) -> Image:
    """Return an image with other bytes in all of its forms, under the same keys."""
    forms = {blob for *_, blob in plan_of(image)["forms"]}
    assert forms
    blobs = {key: ~blob if key in forms else blob for key, blob in image.blobs.items()}
    return replace(image, blobs=blobs)


def depthwise() -> Graph:
    """A convolution that NumPy computes with repeated taps, in a step that is made again."""
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (1, 12, 12, 16), TensorKind.APP_WRITE))
    w = static(graph, "w", np.random.default_rng(3).standard_normal((3, 3, 1, 16), np.float32))
    params = {"stride": (1, 1), "pad_amount": ((1, 1), (1, 1))}
    add(graph, "DepthWiseConv2d", [x, w], name="y", **params).kind = TensorKind.APP_READ
    return graph


def output_of(prepared: Any, graph: CheckedGraph) -> Any:
    (end,) = graph.outputs
    outputs = {end.name: np.zeros(end.shape, np.float32)}
    prepared.run({"x": np.ones((1, 12, 12, 16), np.float32)}, outputs, RunControl())
    return outputs[end.name]


@pytest.mark.parametrize("is_same", [False, True], ids=["another context", "the same context"])
@pytest.mark.parametrize("engine", [EngineChoice.ONEDNN, EngineChoice.NUMPY])
def test_forms_of_an_image_are_for_its_graphs_alone(
    engine: EngineChoice, is_same: bool, request: pytest.FixtureRequest
) -> None:
    """Nothing says that an image's forms were computed from the weights that their keys name."""
    if engine is EngineChoice.ONEDNN:
        request.getfixturevalue("onednn")
    graph = check_ops(small() if engine is EngineChoice.ONEDNN else depthwise(), OPS)
    backend, store = CpuBackend(OPS, CpuOptions(engine=engine)), WeightStore()

    def context(weights: WeightStore) -> Any:
        return backend.open_context(None, None, weights)

    def restored(context: Any) -> Any:
        give, wanted = lambda _: graph, lambda _: PrepareRequest()
        return context.restore(image, give, wanted)["net"].prepared

    author = context(WeightStore())
    prepared = author.prepare(graph, PrepareRequest())
    wanted = output_of(prepared, graph)
    image = poisoned(author.image({"net": prepared}))
    victim = context(store.sibling())
    assert not np.array_equal(output_of(restored(victim), graph), wanted)
    later = (victim if is_same else context(store.sibling())).prepare(graph, PrepareRequest())
    np.testing.assert_array_equal(output_of(later, graph), wanted)
    # a form that is there because a context computed it takes the place of an image's
    np.testing.assert_array_equal(output_of(restored(victim), graph), wanted)


def test_forms_of_an_image_are_in_host_memory() -> None:
    image = image_of(depthwise())
    plan = plan_of(image)
    for form in plan["forms"]:
        form[0][2] = "device"
    assert "memory space 'device'" in rejection(image, plan, depthwise())


@pytest.mark.usefixtures("onednn")
def test_values_have_layouts_alone_for_layouts() -> None:
    image = image_of(small())
    plan = plan_of(image)
    number = next(i for i, value in enumerate(plan[VALUES]) if value[3] == "CONSTANT")
    kinds = {name for name, _ in plan[ITEMS]}
    assert len(kinds) > 1
    seen = set()
    for i, (name, _) in enumerate(plan[ITEMS]):
        altered = plan_of(image)
        altered[VALUES][number][4] = i
        with suppress(ContainerError):  # of an item that is one
            seen.add(name)
            opened().restore(
                replace(image, graphs={"net": altered}), None, lambda _: PrepareRequest()
            )
    assert seen == kinds


@pytest.mark.usefixtures("onednn")
def test_values_that_are_needed_at_the_same_time_share_no_bytes() -> None:
    image = image_of(small())
    plan = plan_of(image)
    first, second = plan[OFFSETS][:2]  # a result, and the scratchpad of the same step
    second[1] = first[1]
    assert "share bytes of the arena" in rejection(image, plan)


@pytest.mark.usefixtures("onednn")
def test_steps_use_what_they_declare() -> None:
    image = image_of(small())
    plan = plan_of(image)
    last = executions(plan)[-1]
    last[READS] = last[READS][:1]
    assert "does not declare" in rejection(image, plan)


@pytest.mark.usefixtures("onednn")
@pytest.mark.parametrize("storage", ["CONSTANT", "INPUT"])
def test_primitives_do_not_write_what_is_only_read(storage: str) -> None:
    image = image_of(small())
    plan = plan_of(image)
    step = executions(plan)[0]
    number = number_of(plan, storage)
    step[READS].append(number)
    for argument in arguments(step):
        if argument[0] == Arg.DESTINATION:
            argument[1] = number
    assert "only read" in rejection(image, plan)
    plan = plan_of(image)
    executions(plan)[0][WRITES].append(number)
    assert "only read" in rejection(image, plan)


@pytest.mark.usefixtures("onednn")
def test_every_output_is_written_and_nothing_read_before() -> None:
    image = image_of(small())
    for cut, message in ((-1, "is not written"), (0, "before it is written")):
        plan = plan_of(image)
        del plan[STEPS][cut]
        assert message in rejection(image, plan)
    plan = plan_of(image)
    plan["inputs"] = []
    assert "before it is written" in rejection(image, plan)


@pytest.mark.usefixtures("onednn")
@pytest.mark.parametrize("kind", [0, 64, 97, 128])
def test_primitives_are_for_inference(kind: int) -> None:
    """In training a primitive also writes arguments that are inputs in inference."""
    image = image_of(small())
    plan = plan_of(image)
    for builder, data in plan[ITEMS]:
        if builder == "onednn.primitive" and data[0] == "convolution_forward":
            data[1][1] = ["int", kind]
    assert "no inference" in rejection(image, plan)


@pytest.mark.usefixtures("onednn")
def test_what_the_library_rejects_is_a_damaged_image() -> None:
    image = image_of(small())
    plan = plan_of(image)
    for builder, data in plan[ITEMS]:
        if builder == "onednn.primitive" and data[0] == "convolution_forward":
            data[1][2] = ["int", 12345]
    assert "oneDNN" in rejection(image, plan)


def searching(plan: Any) -> Any:
    return next(step for step in plan[STEPS] if step[BUILDER] == "onednn.maximum_with_nan")[DATA]


@pytest.mark.usefixtures("onednn")
def test_a_search_for_nan_stays_in_its_memory() -> None:
    """The means are written to memory of the search's own."""
    image = image_of(pooled())
    plan = plan_of(image)
    means = plan[ITEMS][searching(plan)[4]]
    target = means[1][1][4][1]
    # each mean 4 KiB after the one before
    plan[ITEMS][target][1][2] = [1024 * stride for stride in plan[ITEMS][target][1][2]]
    assert "exceeds" in rejection(image, plan)


@pytest.mark.usefixtures("onednn")
def test_windows_with_nan_are_those_of_a_pooling() -> None:
    image = image_of(pooled())
    plan = plan_of(image)
    data = searching(plan)
    windows = plan[ITEMS][data[5]][1]
    source = windows[1][3]
    arguments = [["engine", None], ["int", 96], ["int", 32], source, source]
    windows[:4] = [
        "eltwise_forward",
        [*arguments, ["float", "0x0p+0"], ["float", "0x0p+0"]],
        "",
        [],
    ]
    assert "not those of a pooling" in rejection(image, plan)


def test_an_arena_beyond_the_machines_memory_is_not_allocated() -> None:
    image = image_of(turned())
    plan = plan_of(image)
    number = len(plan[VALUES])
    plan[VALUES].append(["huge", DType.UINT_8.value, [1 << 60], "ARENA"])
    plan[OFFSETS].append([number, 0])
    assert "bytes of memory" in rejection(image, plan, turned())


def test_steps_made_again_have_values_of_their_types() -> None:
    image = image_of(turned())
    plan = plan_of(image)
    for value in plan[VALUES]:
        if value[3] == "ARENA":
            value[1] = DType.UINT_8.value
    assert "the type FLOAT_32" in rejection(image, plan, turned())


def summed() -> Graph:
    """A sum with an updateable tensor and its constant scale, in steps of NumPy."""
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (2, 8), TensorKind.APP_WRITE))
    w = static(graph, "w", np.ones((2, 8), np.float32))
    w.kind = TensorKind.UPDATEABLE_STATIC
    y = add(graph, "ElementWiseAdd", [x, w], name="sum")
    y = add(graph, "ElementWiseSin", [y], name="sin")
    params = {"axis": 1, "exclusive": False, "reverse": False}
    y = add(graph, "CumulativeSum", [y], name="sums", **params)
    scale = static(graph, "scale", np.full((2, 8), 2, np.float32))
    add(graph, "ElementWiseMultiply", [y, scale], name="scaled").kind = TensorKind.APP_READ
    return graph


def result(prepared: Any) -> Any:
    outputs = {"scaled": np.zeros((2, 8), np.float32)}
    prepared.run({"x": np.ones((2, 8), np.float32)}, outputs, RunControl())
    return outputs["scaled"]


def prepared_sum() -> tuple[Any, CheckedGraph]:
    checked = check_ops(summed(), OPS)
    backend = CpuBackend(OPS, CpuOptions(engine=EngineChoice.NUMPY))
    return backend.open_context(None, None, WeightStore()).prepare(
        checked, PrepareRequest()
    ), checked


@pytest.mark.parametrize(
    ("field", "value"),
    [("name", "scale"), ("name", "nowhere"), ("shape", [8, 2]), ("shape", [1]), ("kind", 4)],
)
def test_sections_replace_updateable_tensors_alone(field: str, value: object) -> None:
    prepared, checked = prepared_sum()
    before = {name: (t.data, t.kind) for name, t in checked.graph.tensors.items()}
    wanted = result(prepared)
    section = Image.from_bytes(prepared.section(["w"]).to_bytes())
    plan = msgspec.json.decode(msgspec.json.encode(section.graphs["net"]))
    plan["tensors"][0][field] = value
    with pytest.raises(ContainerError):
        prepared.apply(replace(section, graphs={"net": plan}))
    assert before == {name: (t.data, t.kind) for name, t in checked.graph.tensors.items()}
    np.testing.assert_array_equal(result(prepared), wanted)


def test_a_failed_update_changes_nothing_and_can_be_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepared, checked = prepared_sum()
    wanted = result(prepared)
    old = checked.graph.tensors["w"].data
    new = Tensor.static("w", np.full((2, 8), 5, np.float32))
    new.kind = TensorKind.UPDATEABLE_STATIC
    with monkeypatch.context() as patched:

        def fail(_: object) -> None:
            raise MemoryError

        patched.setattr(Slot, "computed", fail)
        with pytest.raises(MemoryError):
            prepared.update([new])
    assert checked.graph.tensors["w"].data is old
    np.testing.assert_array_equal(result(prepared), wanted)
    prepared.update([new])
    changed = result(prepared)
    assert not np.array_equal(changed, wanted)
    other, _ = prepared_sum()
    other.apply(Image.from_bytes(prepared.section(["w"]).to_bytes()))
    np.testing.assert_array_equal(result(other), changed)


def grouped() -> Graph:
    """A group normalization of two items, whose statistics are vectors between two primitives."""
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (2, 24, 24, 64), TensorKind.APP_WRITE))
    factors = [static(graph, name, np.ones(64, np.float32)) for name in ("gamma", "beta")]
    y = add(graph, "GroupNorm", [x, *factors], name="y", group=4, epsilon=1e-5)
    y.kind = TensorKind.APP_READ
    return graph


NORMS, SCALINGS, VECTORS, FACTORS, SIZES = range(5)  # of a normalization by group


@pytest.mark.usefixtures("onednn")
@pytest.mark.parametrize(
    ("part", "value", "said"),
    [
        (SIZES, [1, 4, 32], "as a vector of"),
        (SIZES, [1, 8, 16], "as a vector of"),  # more numbers for groups than their vector has
        (SIZES, [1, -4, -16], "impossible"),
        (SIZES, [0, 4, 16], "impossible"),
        (NORMS, [], "impossible"),
    ],
)
def test_a_norm_by_group_stays_in_its_vectors(part: int, value: Any, said: str) -> None:
    image = image_of(grouped())
    plan = plan_of(image)
    (step,) = plan[STEPS]
    assert step[BUILDER] == "onednn.item_norm"
    step[DATA][part] = value
    assert said in rejection(image, plan)


@pytest.mark.usefixtures("onednn")
@pytest.mark.parametrize("part", [VECTORS, FACTORS])
def test_a_norm_by_group_overwrites_no_input(part: int) -> None:
    image = image_of(grouped())
    plan = plan_of(image)
    (step,) = plan[STEPS]
    step[DATA][part][0] = step[READS][0]
    assert "'x'" in rejection(image, plan)
