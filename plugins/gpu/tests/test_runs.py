"""Runs: several at a time, profiles by the device's clock, types of the application's arrays."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from small_nets import chain, expected, model_of, some

import dovetail as dt
from dovetail.ir import DType, Graph, ScaleOffset, Spec, Tensor, TensorKind, dequantize, quantize
from dovetail.runtime import ProfileLevel
from dovetail.runtime.plan import Storage, Value
from dovetail_gpu import Element, Launch, Source, computing, layout_for
from dovetail_gpu.space import DeviceSpace
from dovetail_opset.build import add

BUSY = """
__kernel void busy(TENSOR_OUT(float, y), int count) {
  TENSOR_WRITE(float, y);
  float v = 0.5f;
  for (int i = 0; i < count; i++) v = cos(v);
  y[0] = v;
}
"""


def test_executions_of_a_graph_overlap_each_with_its_own_results() -> None:
    with dt.Session(model_of(chain()), backend="gpu") as session:
        (graph,) = session.graphs.values()
        feeds = [some(seed=i) for i in range(8)]
        outputs = [{"y": np.empty((2, 5, 13), np.float32)} for _ in feeds]
        runs = [graph.execute_async({"x": x}, out) for x, out in zip(feeds, outputs, strict=True)]
        direct = graph.execute({"x": feeds[0]})["y"]
        for run in runs:
            assert run.wait(30)
        for x, out in zip(feeds, outputs, strict=True):
            np.testing.assert_allclose(out["y"], expected(x), 1e-5, 1e-6)
        np.testing.assert_array_equal(direct, outputs[0]["y"])


def test_graphs_of_several_threads_have_queues_of_their_own() -> None:
    found: dict[int, np.ndarray] = {}

    def run(seed: int) -> None:
        with dt.Session(model_of(chain()), backend="gpu") as session:
            for _ in range(20):
                found[seed] = session.run({"x": some(seed=seed)})["y"]

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for seed in range(3):
        np.testing.assert_allclose(found[seed], expected(some(seed=seed)), 1e-5, 1e-6)


def test_a_detailed_profile_has_the_devices_time_of_each_step() -> None:
    config = {"graph": [{"graph_name": "chain", "disable_node_optimizations": True}]}
    shape = (64, 256, 64)
    with dt.Session(model_of(chain(shape)), backend="gpu", config=config) as session:
        (graph,) = session.graphs.values()
        profile = session.backend.create_profile(ProfileLevel.DETAILED)
        start = time.perf_counter()
        graph.execute({"x": some(shape)}, profile=profile)
        took = (time.perf_counter() - start) * 1e6
        (event,) = profile.events
        nodes = [
            child
            for child in event.children
            if child.identifier in ("moved", "gate", "product", "y")
        ]
        assert [child.identifier for child in nodes] == ["moved", "gate", "product", "y"]
        assert all(child.value > 0 for child in nodes)
        assert sum(child.value for child in nodes) < took


def test_the_time_of_a_step_is_that_of_all_its_launches() -> None:
    with dt.Session(model_of(chain()), backend="gpu") as session:
        opencl = session.backend.plugin.opencl
        settings = session.backend.plugin.configs.graph()
        block = opencl.space.allocate(4)
        with (found := computing.Computing(opencl, settings)):
            value = Value(
                "y", Spec(DType.UINT_8, (4,)), Storage.ARENA, layout_for(Element.FLOAT, 1)
            )
            one = Launch(Source.from_text(BUSY), "busy", [value, 100_000], (1,)).with_buffers(
                lambda _: (block, 0)
            )
            one()
            found.settle()  # the driver compiles it for this size
            times: dict[int, list[float]] = {1: [], 4: []}
            for count in (1, 4) * 5:  # other processes may interrupt some
                for _ in range(count):
                    one()
                took = found.settle()
                assert took is not None
                times[count].append(took)
            assert found.settle() is None
        # of the one and of the last launch alone it would be the same
        assert 2 * min(times[1]) < min(times[4])


@pytest.mark.parametrize("dtype", [DType.UFIXED_POINT_8, DType.SFIXED_POINT_16])
def test_fixed_point_tensors_are_real_numbers_on_the_device(dtype: DType) -> None:
    encoding = ScaleOffset(0.02, -100 if dtype is DType.UFIXED_POINT_8 else 0)
    graph = Graph("chain")
    x = graph.add_tensor(Tensor("x", dtype, (3, 7), TensorKind.APP_WRITE, encoding=encoding))
    y = add(graph, "Relu", [x], name="y", spec=x.spec)
    y.kind = TensorKind.APP_READ
    stored = quantize(some((3, 7)), encoding, dtype)
    with dt.Session(model_of(graph), backend="gpu") as session:
        found = session.run({"x": stored}, native=True)["y"]
    wanted = np.maximum(dequantize(stored, encoding), 0)
    spec = graph.tensors["y"].spec
    assert spec.encoding is not None
    np.testing.assert_array_equal(found, quantize(wanted, spec.encoding, dtype))


def test_large_inputs_are_read_where_they_are() -> None:
    shape = (256, 512)
    with dt.Session(model_of(chain(shape)), backend="gpu") as session:
        (graph,) = session.graphs.values()
        if not session.backend.plugin.opencl.space.reads_host:
            pytest.skip("the device has memory of its own")
        sizes = graph._prepared.arena.sizes
        assert sum(sizes.values()) == 256 * 512 * 4  # of the result: x is nowhere else
        x = some(shape)
        for seed in range(3):
            x[...] = some(shape, seed)  # the same array, changed by the application
            found = session.run({"x": x})["y"]
            np.testing.assert_allclose(found, expected(some(shape, seed)), 1e-5, 1e-6)
        memory = graph.context.register_memory(x, DType.FLOAT_32)
        x[...] = some(shape, 7)
        np.testing.assert_allclose(graph.execute({"x": memory})["y"], expected(x), 1e-5, 1e-6)
        other = np.asfortranarray(some(shape, 8))
        found = session.run({"x": np.ascontiguousarray(other)})["y"]
        np.testing.assert_allclose(found, expected(other), 1e-5, 1e-6)
        odd = np.frombuffer(bytearray(x.nbytes + 4), np.float32)[1:].reshape(shape)
        odd[...] = some(shape, 9)
        np.testing.assert_allclose(session.run({"x": odd})["y"], expected(odd), 1e-5, 1e-6)
        odd.flags.writeable = False
        np.testing.assert_allclose(session.run({"x": odd})["y"], expected(odd), 1e-5, 1e-6)


@pytest.mark.parametrize("maps", [True, False])
def test_an_input_that_is_sent_late_leaves_earlier_values_alone(
    maps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third input may get memory of values that kernels in progress still read."""
    with dt.Session(model_of(chain()), backend="gpu") as session:
        if maps and not session.backend.plugin.opencl.space.maps_blocks:
            pytest.skip("the device has memory of its own")
    monkeypatch.setattr(DeviceSpace, "maps_blocks", maps)
    shape = (40, 40, 40)
    graph = Graph("late")
    inputs = [
        graph.add_tensor(Tensor(name, DType.FLOAT_32, shape, TensorKind.APP_WRITE))
        for name in ("a", "b", "c")
    ]
    value = add(graph, "MatMul", inputs[:2], name="first")
    for i in range(4):
        square = add(graph, "MatMul", [value, value], name=f"square{i}")
        value = add(graph, "ElementWiseMinimum", [square, value], name=f"smaller{i}")
    add(graph, "ElementWiseAdd", [value, inputs[2]], name="y").kind = TensorKind.APP_READ
    feeds = {tensor.name: some(shape, seed) / 10 for seed, tensor in enumerate(inputs)}
    wanted = np.matmul(feeds["a"], feeds["b"])
    for _ in range(4):
        wanted = np.minimum(np.matmul(wanted, wanted), wanted)
    wanted += feeds["c"]
    with dt.Session(model_of(graph), backend="gpu") as session:
        for _ in range(3):
            found = session.run(feeds)["y"]
            np.testing.assert_allclose(found, wanted, 1e-4, 1e-4 * np.abs(wanted).max())


def test_profiles_count_copies_between_host_and_device() -> None:
    with dt.Session(model_of(chain()), backend="gpu") as session:
        (graph,) = session.graphs.values()
        x, y = some(), np.empty((2, 5, 13), np.float32)
        for given in (x, graph.context.register_memory(x, DType.FLOAT_32)):
            profile = session.backend.create_profile()
            graph.execute({"x": given}, {"y": y}, profile)
            found = {c.name: c.value for c in profile.events[0].counters}
            assert found == {"io_copies": 2, "io_copied_bytes": 2 * x.nbytes, "io_buffer_bytes": 0}
        np.testing.assert_allclose(y, expected(x), 1e-5, 1e-6)
    shape = (256, 512)
    with dt.Session(model_of(chain(shape)), backend="gpu") as session:
        (graph,) = session.graphs.values()
        reads_host = session.backend.plugin.opencl.space.reads_host
        profile = session.backend.create_profile()
        graph.execute({"x": some(shape)}, {"y": np.empty(shape, np.float32)}, profile)
        found = {c.name: c.value for c in profile.events[0].counters}
        assert found["io_copies"] == (1 if reads_host else 2)  # x is read where it is
