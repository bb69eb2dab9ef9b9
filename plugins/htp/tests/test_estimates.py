"""Detailed profiles: the estimate against the one published figure, tiles, saturated results."""

import itertools

import numpy as np
import pytest

from dovetail import runtime
from dovetail.container import Model, Producer
from dovetail.ir import DType, Graph, MemoryType, ScaleOffset, Spec, Tensor, TensorKind
from dovetail.ops import check_ops
from dovetail_htp.estimates import Estimate, roofline, saturated
from dovetail_opset.build import add

U8, S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8
MB = 2**20
MEASURED_CYCLES = 2.1e6  # of a block of 3.48 G MACs at 1x512x512 on a v79 with 8 MB of VTCM


def block(channels: list[int], size: int, *, scale: float = 0.05) -> Graph:
    """Return a chain of 3x3 convolutions with these numbers of channels."""
    graph = Graph("block")
    shape = (1, size, size)
    kinds = [TensorKind.APP_WRITE, *[TensorKind.NATIVE] * (len(channels) - 2), TensorKind.APP_READ]
    tensors = [
        Tensor(f"t{i}", U8, (*shape, c), kind, encoding=ScaleOffset(scale, -100))
        for i, (c, kind) in enumerate(zip(channels, kinds, strict=True))
    ]
    graph.add_tensor(tensors[0])
    for i, (x, y) in enumerate(itertools.pairwise(tensors)):
        weights = np.full((3, 3, x.shape[3], y.shape[3]), 40)
        w = graph.add_tensor(Tensor.static(f"w{i}", weights, S8, encoding=ScaleOffset(0.02)))
        pad = [[1, 1], [1, 1]]
        add(graph, "Conv2d", [x, w], name=f"conv{i}", outputs=y, stride=[1, 1], pad_amount=pad)
    return graph


def within_factor_2(cycles: float) -> bool:
    return MEASURED_CYCLES / 2 <= cycles <= MEASURED_CYCLES * 2


def test_the_measured_traffic_gives_the_measured_cycles() -> None:
    assert within_factor_2(roofline(3.48e9, (252 + 191) * 1e6, (22.9 + 29.8) * 1e6))


def test_a_network_of_that_work_gives_the_measured_cycles(ops) -> None:
    graph = check_ops(block([3, *[16] * 6, 12], 512), ops)
    assert sum(view.work for view in graph.nodes) == pytest.approx(3.48e9, rel=0.05)
    assert within_factor_2(sum(Estimate.of(view, 8 * MB).cycles for view in graph.nodes))


@pytest.mark.parametrize("memory_type", [MemoryType.RAW, MemoryType.MEMHANDLE])
def test_profiles_count_the_buffers_and_copies_of_the_processor(ops, memory_type) -> None:
    graph = block([3, 4], 8)
    runtime.set_io_memory_type(graph, memory_type)
    model = Model.of(graph, producer=Producer("test", "1"), registry=ops)
    nbytes, is_raw = 8 * 8 * (3 + 4), memory_type is MemoryType.RAW
    with runtime.Backend.create("htp", ops=ops) as backend:
        (handle,) = backend.create_context().compose(model)
        profile = backend.create_profile()
        handle.finalize(profile)
        given = {"t0": np.arange(192, dtype=np.uint8).reshape(1, 8, 8, 3)}
        wanted = handle.execute(given)["t1"]
        with runtime.SharedBuffers(handle) as buffers:
            buffers.arrays["t0"][...] = given["t0"]
            handle.execute(buffers.inputs, buffers.outputs, profile)
            np.testing.assert_array_equal(buffers.arrays["t1"], wanted)
        handle.execute(given, None, profile)
        found = [{c.name: c.value for c in event.counters} for event in profile.events]
    assert found == [
        {"io_buffer_bytes": nbytes if is_raw else 0},  # else the first execution allocates
        {"io_copies": 0, "io_copied_bytes": 0, "io_buffer_bytes": 0},
        {"io_copies": 2, "io_copied_bytes": nbytes, "io_buffer_bytes": 0},
    ]


def test_a_context_binary_keeps_memory_types(ops) -> None:
    given = {"t0": np.arange(192, dtype=np.uint8).reshape(1, 8, 8, 3)}
    for memory_type, allocated in ((MemoryType.RAW, 0), (MemoryType.MEMHANDLE, 8 * 8 * (3 + 4))):
        graph = block([3, 4], 8)
        runtime.set_io_memory_type(graph, memory_type)
        model = Model.of(graph, producer=Producer("test", "1"), registry=ops)
        with runtime.Backend.create("htp", ops=ops) as backend:
            context = backend.create_context()
            context.compose(model)[0].finalize()
            restored = backend.create_context_from_binary(context.get_binary(embed_model=False))
            profile = backend.create_profile()
            for _ in range(2):
                restored.graphs["block"].execute(given, None, profile)
            in_run = [{c.name: c.value for c in event.counters} for event in profile.events]
        assert [found["io_buffer_bytes"] for found in in_run] == [allocated, 0]
        assert [found["io_copies"] for found in in_run] == [2, 2]


def test_a_tensor_that_does_not_fit_is_read_from_memory(ops) -> None:
    (view,) = check_ops(block([2, 2], 512), ops).nodes
    near, far = Estimate.of(view, 8 * MB), Estimate.of(view, MB // 2)
    whole = 2 * 512 * 512 * 2 + 3 * 3 * 2 * 2
    assert near.cycles == roofline(view.work, whole, 36)
    assert far.cycles == roofline(view.work, whole, whole) > near.cycles
    # three rows of the input and the output, and all weights
    assert near.tile_bytes == far.tile_bytes == 2 * 3 * 512 * 2 + 36


def profile(graph: Graph, backend: str, **settings: int) -> dict[str, dict[str, float]]:
    """Return the counters of each node of a run."""
    with runtime.Backend.create(backend) as made:
        context = made.create_context(made.create_device({"vtcm_mb": 1}))
        (composed,) = context.compose(Model({graph.name: graph}, Producer("test", "1"), {}))
        composed.set_config(settings)
        composed.finalize()
        detail = made.create_profile(runtime.ProfileLevel.DETAILED)
        x = np.full(graph.tensor("t0").shape, 200, np.uint8)
        composed.execute({"t0": x}, profile=detail)
        nodes = [part for event in detail.events for part in event.children if part.counters]
    return {part.identifier: {c.name: c.value for c in part.counters} for part in nodes}


def test_a_profile_has_the_estimate_beside_the_time() -> None:
    (counters,) = profile(block([8, 4], 32), "htp", vtcm_mb=2).values()
    assert counters["work"] == 32 * 32 * 9 * 8 * 4
    assert counters["estimated_cycles"] == 144  # by products: 294912 / 2048
    assert counters["tile_fits_vtcm"] == 1
    # 200 stands for 5.0, every sum is far above the range
    assert counters["saturations"] == 32 * 32 * 4


def test_a_fused_group_has_the_estimates_of_its_nodes() -> None:
    graph = block([8, 4], 32)
    y = graph.tensor("t1")
    y.kind = TensorKind.NATIVE
    z = Tensor("z", U8, y.shape, TensorKind.APP_READ, encoding=ScaleOffset(0.05, -100))
    add(graph, "Relu", [y], name="relu", outputs=z)
    found = profile(graph, "htp").values()
    relu = 2 * 32 * 32 * 4 / 256
    assert sum(counters["estimated_cycles"] for counters in found) == 144 + relu


def test_nothing_is_estimated_of_other_processors() -> None:
    (counters,) = profile(block([8, 4], 32), "dsp").values()
    assert set(counters) == {"work", "bytes_moved", "saturations"}


@pytest.mark.parametrize(
    ("offset", "stored", "count"),
    [(0, [0, 0, 255], 1), (-128, [0, 128, 255, 255], 3), (-255, [0, 255, 255], 1)],
)
def test_an_end_that_represents_zero_does_not_count(offset, stored, count) -> None:
    spec = Spec(U8, (len(stored),), ScaleOffset(0.1, offset))
    assert saturated(np.uint8(stored), spec) == count
