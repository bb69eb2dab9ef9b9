"""Context binaries and sections with right checksums and wrong content, and careless users."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from fuzz.containers import Parts

from dovetail.container import Model, Producer
from dovetail.errors import BackendError, ContainerError, DovetailError
from dovetail.ir import Array, DType, Graph, Tensor, TensorKind
from dovetail.plugins.ops import installed_ops
from dovetail.runtime import Backend, Context, SignalKind
from dovetail_opset.build import add, static

SIZE = 64
FEEDS = {"x": np.ones((4, SIZE), np.float32)}
Edit = Callable[[Parts], object]


def product(name: str, seed: int) -> Graph:
    """A product with updateable weights."""
    graph = Graph(name)
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (4, SIZE), TensorKind.APP_WRITE))
    random = np.random.default_rng(seed)
    w = static(graph, "w", random.standard_normal((SIZE, SIZE), np.float32))
    w.kind = TensorKind.UPDATEABLE_STATIC
    add(
        graph, "Relu", [add(graph, "MatMul", [x, w], name="p")], name="y"
    ).kind = TensorKind.APP_READ
    return graph


@dataclass(frozen=True)
class Sample:
    """A context with four graphs: two products, and two that exchange a state.

    Attributes:
        backend: Its backend.
        binary: The context.
        section: Other weights of the graph `a`.
        empty: A section without changes.
        outputs: Results of `a`, of `b`, and of `a` with the section.
    """

    backend: Backend
    binary: bytes
    section: bytes
    empty: bytes
    outputs: tuple[Array, Array, Array]

    def context(self, edit: Edit | None = None, **config: Any) -> Context:
        """Create the context from its binary, perhaps an edited one."""
        parts = Parts.of(self.binary)
        if edit is not None:
            edit(parts)
        return self.backend.create_context_from_binary(parts.sealed(), config=config)


@pytest.fixture(scope="module")
def sample() -> Iterator[Sample]:
    with Backend.create("cpu") as backend:
        context = backend.create_context()
        graphs = [product("a", 1), product("b", 2)]
        context.compose(Model.of(*graphs, producer=Producer("test", "1"), registry=installed_ops()))
        state = context.create_tensor("state", DType.FLOAT_32, (4, SIZE))
        writer, reader = context.create_graph("write"), context.create_graph("read")
        x = writer.create_tensor("x", DType.FLOAT_32, (4, SIZE), TensorKind.APP_WRITE)
        writer.add_node("n", "qti.aisw", "Relu", [x], [state])
        y = reader.create_tensor("y", DType.FLOAT_32, (4, SIZE), TensorKind.APP_READ)
        reader.add_node("n", "qti.aisw", "Relu", [state], [y])
        for graph in context.graphs.values():
            graph.finalize()
        binary = context.get_binary().tobytes()
        a, b = (context.graphs[name] for name in "ab")
        empty = context.get_binary_section(a).tobytes()
        outputs = [run(context, "a"), run(context, "b")]
        a.update_tensor(a.retrieve_tensor("w"), np.eye(SIZE, dtype=np.float32) * 3)
        a.finalize()
        outputs.append(run(context, "a"))
        section = context.get_binary_section(a).tobytes()
        yield Sample(backend, binary, section, empty, (outputs[0], outputs[1], outputs[2]))
        assert b.is_finalized


def run(context: Context, name: str) -> Array:
    return context.graphs[name].execute(FEEDS)["y"]


def entry(index: int, **changes: Any) -> Edit:
    """Change the entry of a graph."""
    return lambda parts: parts.manifest["graphs"][index].update(changes)


def end(index: int, **changes: Any) -> Edit:
    """Change the first input of a graph."""
    return lambda parts: parts.manifest["graphs"][index]["inputs"][0].update(changes)


def tensor(**changes: Any) -> Edit:
    """Change the context tensor."""
    return lambda parts: parts.manifest["tensors"][0].update(changes)


def twice(*path: Any) -> Edit:
    """Repeat all items of a list."""

    def edit(parts: Parts) -> None:
        found: Any = parts.manifest
        for key in path:
            found = found[key]
        found += found

    return edit


def changed(what: str, change: Callable[[Any], object], index: int = 0) -> Edit:
    """Change the plan or the model of a graph."""

    def edit(parts: Parts) -> None:
        at = parts.manifest["graphs"][index][what]
        value = parts.json(at)
        parts.replace(at, json.dumps(change(value) or value).encode())

    return edit


LIES: dict[str, tuple[Edit, str]] = {
    "the state is smaller": (tensor(shape=[1]), "does not match"),
    "the state has another type": (tensor(dtype=DType.INT_8.value), "does not match"),
    "the state is huge": (tensor(shape=[1 << 40]), "does not match"),
    "the state overflows": (tensor(shape=[1 << 62, 1 << 62]), "impossible shape"),
    "the state is constant": (tensor(kind=TensorKind.STATIC.value), "has no data"),
    "the state is internal": (tensor(kind=TensorKind.NATIVE.value), "allowed in a context"),
    "two states": (twice("tensors"), "duplicate tensor name"),
    "no state": (lambda parts: parts.manifest["tensors"].clear(), "'state' not found"),
    "an input is the state": (entry(0, shared=["state"]), "does not match"),
    "the state twice": (twice("graphs", 2, "shared"), "used twice"),
    "an unknown setting": (entry(0, config={"speed": 9}), "unknown key"),
    "a wrong setting": (entry(0, config={"graph_priority": 5}), "graph_priority"),
    "an open axis": (end(0, dynamic=[True, False]), "not those that the manifest lists"),
    "other memory": (end(0, memory_type=1), "not those that the manifest lists"),
    "another kind": (end(0, kind=TensorKind.STATIC.value), "not those"),
    "another shape": (end(0, shape=[8, SIZE]), "not those"),
    "another name": (end(0, name="z"), "not those"),
    "no inputs": (entry(0, inputs=[]), "not those"),
    "two inputs": (twice("graphs", 0, "inputs"), "duplicate input or output"),
    "two graphs": (twice("graphs"), "duplicate graph name"),
    "no name": (entry(0, name=""), "empty graph name"),
    "no plan": (entry(0, plan=None), "not those"),
    "negative memory": (entry(0, memory_bytes=-1), ">= 0"),
    "a missing blob": (entry(0, plan=999), "blob 999 not found"),
    "another plan": (lambda p: entry(0, plan=p.manifest["graphs"][2]["plan"])(p), "not those"),
    "a plan of weights": (
        lambda p: entry(0, plan=next(iter(p.manifest["names"].values())))(p),
        "not valid",
    ),
    "a list as plan": (changed("plan", lambda _: [1]), "plan"),
    "no fingerprint": (lambda p: p.manifest.update(fingerprint={}), "UNSUPPORTED"),
    "no weights": (lambda p: p.manifest.update(names={}), "not found"),
}


@pytest.mark.parametrize("lie", LIES)
def test_lies_are_rejected_when_the_context_is_created(sample: Sample, lie: str) -> None:
    edit, message = LIES[lie]
    before = len(sample.backend.contexts)
    with pytest.raises(ContainerError, match=message):
        sample.context(edit)
    assert len(sample.backend.contexts) == before


MODEL_LIES: dict[str, Edit] = {
    "another name": changed("model", lambda m: m | {"name": "b"}),
    "no tensors": changed("model", lambda m: m | {"tensors": [], "nodes": []}),
    "an unknown op": changed("model", lambda m: m["nodes"][0].update(op_type="Nope")),
    "another shape": changed("model", lambda m: m["tensors"][0].update(shape=[2, SIZE])),
    "a list": changed("model", lambda m: [m]),
    "no op package": changed("model", lambda m: m["nodes"][0].update(package="none")),
}


@pytest.mark.parametrize("lie", MODEL_LIES)
def test_a_model_that_lies_is_rejected_when_it_is_needed(sample: Sample, lie: str) -> None:
    with sample.context(MODEL_LIES[lie]) as context:
        graph = context.graphs["a"]
        np.testing.assert_array_equal(run(context, "a"), sample.outputs[0])
        for _ in range(2):
            with pytest.raises(DovetailError):
                graph.update_tensor(graph.retrieve_tensor("w"), np.ones((SIZE, SIZE), np.float32))
        np.testing.assert_array_equal(run(context, "a"), sample.outputs[0])


def updated(**changes: Any) -> Edit:
    """Change the tensor of a section."""
    return lambda parts: parts.manifest["graphs"][0]["updated"][0].update(changes)


def slot(index: int, value: Any) -> Edit:
    """Change the form of the tensor in the plan of a section."""
    return changed("plan", lambda plan: plan["slots"][0].__setitem__(index, value))


SECTION_LIES: dict[str, Edit] = {
    "unknown tensor": updated(name="z"),
    "an input": updated(name="x", kind=0, shape=[4, SIZE], data=None),
    "another shape": updated(shape=[32, 128]),
    "a smaller shape": updated(shape=[8, 8]),
    "another kind": updated(kind=TensorKind.STATIC.value),
    "another type": updated(dtype=DType.INT_32.value),
    "no data": updated(data=None),
    "an encoding": updated(encoding={"encoding": "scale_offset", "scale": 1.0}),
    "the tensor twice": twice("graphs", 0, "updated"),
    "another base": entry(0, digest="0" * 64),
    "no base": entry(0, digest=""),
    "another graph": entry(0, name="b"),
    "an unknown graph": entry(0, name="z"),
    "no plan": entry(0, plan=None),
    "a list as plan": changed("plan", lambda plan: [plan]),
    "a form of an input": slot(0, ["x"]),
    "an unknown form": slot(1, "other"),
    "a missing blob": slot(4, "other"),
    "no blobs": lambda parts: parts.manifest.update(names={}),
    "unknown tensor in the plan": changed(
        "plan", lambda p: (p.update(new_encodings=True), p["tensors"][0].update(name="z"))[0]
    ),
}


@pytest.mark.parametrize("before", [False, True], ids=["base", "changed"])
@pytest.mark.parametrize("lie", SECTION_LIES)
def test_a_section_that_lies_changes_nothing(sample: Sample, lie: str, before: bool) -> None:
    parts = Parts.of(sample.section)
    SECTION_LIES[lie](parts)
    with sample.context() as context:
        if before:
            context.apply_binary_section(sample.section)
        wanted = sample.outputs[2 if before else 0]
        np.testing.assert_array_equal(run(context, "a"), wanted)
        with pytest.raises(ContainerError) as caught:
            context.apply_binary_section(parts.sealed())
        assert caught.value.code in ("CONTAINER_INVALID", "CONTAINER_INCOMPATIBLE")
        np.testing.assert_array_equal(run(context, "a"), wanted)
        np.testing.assert_array_equal(run(context, "b"), sample.outputs[1])
        context.apply_binary_section(sample.section)
        context.apply_binary_section(sample.section)  # twice
        np.testing.assert_array_equal(run(context, "a"), sample.outputs[2])


def test_a_damaged_second_graph_leaves_the_first_as_it_is(sample: Sample) -> None:
    with sample.context() as context:
        for name in "ab":
            graph = context.graphs[name]
            graph.update_tensor(graph.retrieve_tensor("w"), np.eye(SIZE, dtype=np.float32))
            graph.finalize()
        parts = Parts.of(context.get_binary_section().tobytes())
    index = next(i for i, g in enumerate(parts.manifest["graphs"]) if g["name"] == "b")
    for edit in (
        lambda p: p.manifest["graphs"][index]["updated"][0].update(shape=[8, 8]),
        entry(index, plan=1),
        changed("plan", lambda plan: plan["slots"][0].__setitem__(1, "other"), index),
    ):
        damaged = Parts.of(parts.sealed())
        edit(damaged)
        with sample.context() as context:
            for wanted in (sample.outputs[0], sample.outputs[2]):
                np.testing.assert_array_equal(run(context, "a"), wanted)
                with pytest.raises(ContainerError):
                    context.apply_binary_section(damaged.sealed())
                np.testing.assert_array_equal(run(context, "a"), wanted)
                assert context.graphs["a"].revision.names == (
                    () if wanted is sample.outputs[0] else ("w",)
                )
                context.apply_binary_section(sample.section)


def test_files_of_other_kinds(sample: Sample) -> None:
    create, cut = sample.backend.create_context_from_binary, sample.binary[:-1]
    for data in (sample.section, cut, sample.binary[:100], b"", b"PK\3\4" * 99):
        with pytest.raises(ContainerError):
            create(data)
        with pytest.raises(ContainerError):
            sample.backend.validate_binary(data)
    with sample.context() as context:
        for data in (sample.binary, sample.section[:-1], b"", b"PK\3\4" * 99):
            with pytest.raises(ContainerError):
                context.apply_binary_section(data)
    array = np.frombuffer(sample.binary * 2, np.uint8)
    for strided in (array[::2], memoryview(array)[::2]):
        with pytest.raises(BackendError, match="contiguous"):
            create(strided)


@pytest.mark.parametrize("where", ["header", "manifest", "plan", "padding", "weights"])
def test_flipped_bits(sample: Sample, where: str) -> None:
    """Those of weights are found by `validate_binary` alone: loading does not read them."""
    data, parts = bytearray(sample.binary), Parts.of(sample.binary)
    plan = parts.blobs[parts.manifest["graphs"][0]["plan"]]
    weights = parts.blobs[next(iter(parts.manifest["names"].values()))]
    raw = data.index(b'{"blobs"')
    at = {
        "header": 9,
        "manifest": raw + 99,
        "plan": data.index(plan) + 20,
        "padding": data.index(plan) + len(plan),
        "weights": data.index(weights) + 100,
    }[where]
    for bit in range(8):
        data[at] ^= 1 << bit
        with pytest.raises(ContainerError):
            sample.backend.validate_binary(bytes(data))
        if where == "weights":
            sample.backend.create_context_from_binary(bytes(data)).free()
        else:
            with pytest.raises(ContainerError):
                sample.backend.create_context_from_binary(bytes(data))
        data[at] ^= 1 << bit


@pytest.mark.parametrize("view", ["bytearray", "array", "view"])
def test_bytes_that_may_change_are_copied(sample: Sample, view: str) -> None:
    """Also those behind a view that is read-only."""
    own = np.zeros(len(sample.binary) + 64, np.uint8)
    own = own[-own.ctypes.data % 64 :][: len(sample.binary)]  # aligned, or it is copied anyway
    own[:] = np.frombuffer(sample.binary, np.uint8)
    given: Any = {"array": own, "view": own.view(), "bytearray": bytearray(sample.binary)}[view]
    if view == "view":
        given.flags.writeable = False
    changing = given if view == "bytearray" else own
    with sample.backend.create_context_from_binary(given) as context:
        np.asarray(memoryview(changing))[:] = 0
        graph = context.graphs["a"]
        assert graph.retrieve_tensor("w").ir.stored().any()
        np.testing.assert_array_equal(run(context, "a"), sample.outputs[0])
    persistent = {"is_persistent_binary": True}
    own[:] = np.frombuffer(sample.binary, np.uint8)
    with sample.backend.create_context_from_binary(own, config=persistent) as context:
        weights = context.graphs["a"].retrieve_tensor("w").ir.stored()
        assert np.may_share_memory(own, weights)
        np.testing.assert_array_equal(run(context, "a"), sample.outputs[0])


def test_ten_thousand_graphs(sample: Sample) -> None:
    names = [f"g/{i}/a" for i in range(10_000)]

    def many(parts: Parts) -> None:
        first = parts.manifest["graphs"][0]
        parts.manifest["graphs"] = [first | {"name": name} for name in names]

    with pytest.raises(ContainerError, match="has the name 'a'"):
        sample.context(many, enable_graphs=names[:3], memory_limit_hint=100).graphs[
            names[0]
        ].retrieve_tensor("w")
    section = Parts.of(sample.section)
    many(section)
    with sample.context() as context, pytest.raises(ContainerError, match="has no graph 'g/0/a'"):
        context.apply_binary_section(section.sealed())


# -- graphs that are loaded when they run ----------------------------------------------------------


def test_graphs_loaded_late_behave_like_others(sample: Sample) -> None:
    with sample.context(memory_limit_hint=0) as context:
        np.testing.assert_array_equal(context.get_binary(), np.frombuffer(sample.binary, np.uint8))
        context.apply_binary_section(sample.section)
        for _ in range(2):  # others are dropped meanwhile
            np.testing.assert_array_equal(run(context, "b"), sample.outputs[1])
            np.testing.assert_array_equal(run(context, "a"), sample.outputs[2])
        context.apply_binary_section(sample.empty)
        np.testing.assert_array_equal(run(context, "a"), sample.outputs[0])
        graph = context.graphs["b"]
        graph.update_tensor(graph.retrieve_tensor("w"), np.eye(SIZE, dtype=np.float32))
        graph.finalize()
        run(context, "a")
        np.testing.assert_array_equal(run(context, "b"), FEEDS["x"])


@pytest.mark.parametrize("config", [{}, {"memory_limit_hint": 0}], ids=["loaded", "late"])
def test_states_survive(sample: Sample, config: dict[str, int]) -> None:
    with sample.context(**config) as context:
        context.graphs["write"].execute({"x": np.full((4, SIZE), 3, np.float32)})
        run(context, "a")
        assert context.graphs["read"].execute({})["y"].max() == 3
        binary = context.get_binary()
    with sample.backend.create_context_from_binary(binary, config=config) as again:
        assert again.graphs["read"].execute({})["y"].max() == 3
        np.testing.assert_array_equal(again.get_binary(), binary)


def test_late_graphs_run_in_threads_and_queues(sample: Sample) -> None:
    with sample.context(memory_limit_hint=0, async_execute_queue_depth=40) as context:
        outputs = [np.zeros((4, SIZE), np.float32) for _ in range(20)]
        queued = [
            context.graphs["ab"[i % 2]].execute_async(FEEDS, {"y": y})
            for i, y in enumerate(outputs)
        ]
        failed: list[str] = []

        def work(name: str, wanted: Array) -> None:
            for _ in range(20):
                if not np.array_equal(run(context, name), wanted):
                    failed.append(name)

        threads = [
            threading.Thread(target=work, args=(name, sample.outputs[i]))
            for i, name in enumerate("ab")
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for execution in queued:
            execution.wait()
        assert not failed
        for i, y in enumerate(outputs):
            np.testing.assert_array_equal(y, sample.outputs[i % 2])


def test_loading_is_stopped(sample: Sample) -> None:
    timeout = sample.backend.create_signal(SignalKind.TIMEOUT, timeout_us=0)
    before = len(sample.backend.contexts)
    for config in ({}, {"memory_limit_hint": 0}, {"memory_limit_hint": 100}):
        with pytest.raises(BackendError, match="timeout"):
            sample.backend.create_context_from_binary(sample.binary, config=config, signal=timeout)
    assert len(sample.backend.contexts) == before
    with sample.context(memory_limit_hint=0) as context:
        for call in (
            lambda: context.graphs["a"].execute(FEEDS, signal=timeout),
            lambda: context.apply_binary_section(sample.section, signal=timeout),
        ):
            with pytest.raises(BackendError, match="timeout"):
                call()
        np.testing.assert_array_equal(run(context, "a"), sample.outputs[0])


def test_sections_are_applied_between_runs(sample: Sample) -> None:
    with sample.context() as context:
        known, found, stop = [o.tobytes() for o in sample.outputs], set[bytes](), threading.Event()

        def work() -> None:
            while not stop.is_set():
                found.add(run(context, "a").tobytes())

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for i in range(30):
            context.apply_binary_section(sample.empty if i % 2 else sample.section)
        stop.set()
        for thread in threads:
            thread.join()
        assert found <= {known[0], known[2]}


def test_a_context_is_freed_while_its_graphs_are_loaded(sample: Sample) -> None:
    context, codes = sample.context(memory_limit_hint=0), list[str]()
    graphs = [context.graphs[name] for name in "ab"]
    started = threading.Barrier(3)

    def work(index: int) -> None:
        started.wait()
        try:
            while True:
                graphs[index].execute(FEEDS)
        except DovetailError as error:
            codes.append(error.code)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    started.wait()
    context.free()
    for thread in threads:
        thread.join()
    assert set(codes) <= {"CONTEXT_ERROR_INVALID_HANDLE", "GRAPH_ERROR_INVALID_HANDLE"}
    assert len(codes) == 2
