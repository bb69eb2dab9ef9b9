"""States of handles: what may be called when, and what a wrong call says."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import pytest
from null_backend import NullBackend
from reference_backend import OPS, BareBackend, ReferenceBackend, chain

from dovetail import runtime
from dovetail.container import Model, Producer
from dovetail.errors import (
    BackendError,
    ConfigError,
    GraphError,
    OpError,
    PluginError,
    UnsupportedOpError,
)
from dovetail.ir import DType, Node, Scalar, Tensor, TensorKind
from dovetail.ops import OpRegistry, check_ops
from dovetail.runtime import handle as handle_module
from dovetail.runtime.api_table import REQUIRED
from dovetail.runtime.contract import PrepareRequest

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def model(*graphs: object) -> Model:
    return Model.of(*graphs, producer=Producer("test", "1"), registry=OPS)  # type: ignore[arg-type]


@pytest.fixture
def backend() -> Iterator[runtime.Backend]:
    with runtime.Backend.create(ReferenceBackend, ops=OPS) as made:
        yield made


@pytest.fixture
def context(backend: runtime.Backend) -> runtime.Context:
    return backend.create_context()


def composed(context: runtime.Context, *ops: str) -> runtime.Graph:
    return context.compose(model(chain(*ops)))[0]


def test_a_graph_goes_from_composed_to_finalized_to_executed(context: runtime.Context) -> None:
    graph = composed(context, "Scale", "Scale")
    assert not graph.is_finalized
    graph.finalize()
    assert graph.is_finalized
    np.testing.assert_array_equal(graph.execute({"x": X})["y"], X * 4)


def test_execute_before_finalize(context: runtime.Context) -> None:
    graph = composed(context, "Scale")
    with pytest.raises(BackendError, match="not finalized") as caught:
        graph.execute({"x": X})
    assert (caught.value.code, caught.value.number) == ("GRAPH_ERROR_GRAPH_NOT_FINALIZED", 6023)
    assert "finalize()" in caught.value.hint


def test_a_finalized_graph_does_not_change(context: runtime.Context) -> None:
    graph = composed(context, "Scale")
    graph.finalize()
    for call in (
        lambda: graph.create_tensor("z", DType.FLOAT_32, (1,)),
        lambda: graph.add_node("n", "test.ops", "Scale", [], []),
        graph.finalize,
    ):
        with pytest.raises(BackendError) as caught:
            call()
        assert caught.value.number == 6024


def test_use_after_free_names_the_handle_and_has_its_number(backend: runtime.Backend) -> None:
    device = backend.create_device()
    context = backend.create_context(device)
    graph = composed(context, "Scale")
    graph.finalize()
    signal, profile = backend.create_signal(), backend.create_profile()
    memory = context.register_memory(X.copy(), DType.FLOAT_32)
    memory.deregister()
    with pytest.raises(BackendError) as caught:
        graph.execute({"x": memory})
    assert caught.value.number == 8001
    signal.free()
    profile.free()
    context.free()
    device.free()
    dead = {
        6001: lambda: graph.execute({"x": X}),
        5002: lambda: context.create_graph("again"),
        14000: device.free,
        9003: signal.trigger,
        12000: lambda: profile.events,
    }
    for number, call in dead.items():
        with pytest.raises(BackendError, match="was freed") as caught:
            call()
        assert caught.value.number == number
    backend.free()
    with pytest.raises(BackendError) as caught:
        backend.create_context()
    assert caught.value.number == 4011


def test_owners_are_not_freed_under_what_they_own(backend: runtime.Backend) -> None:
    device = backend.create_device()
    context = backend.create_context(device)
    with pytest.raises(BackendError) as caught:
        device.free()
    assert caught.value.number == 14003
    with pytest.raises(BackendError) as caught:
        backend.free()
    assert caught.value.number == 4002
    context.free()
    device.free()


def test_graph_names(context: runtime.Context) -> None:
    context.create_graph("net")
    for name in ("net", ""):
        with pytest.raises(BackendError) as caught:
            context.create_graph(name)
        assert caught.value.number == 6003
    with pytest.raises(BackendError, match="graph 'nat' not found") as caught:
        context.retrieve_graph("nat")
    assert (caught.value.number, caught.value.hint) == (6002, "did you mean 'net'?")
    assert context.retrieve_graph("net") is context.graphs["net"]


def test_add_node_refuses_with_every_reason(context: runtime.Context) -> None:
    graph = context.create_graph("g")
    x = graph.create_tensor("x", DType.FLOAT_32, (2,), TensorKind.APP_WRITE)
    y = graph.create_tensor("y", DType.FLOAT_32, (3,), TensorKind.APP_READ)
    params = {"facto": Scalar(DType.FLOAT_32, 1.0), "factor": Scalar(DType.INT_32, 1)}
    with pytest.raises(OpError) as caught:
        graph.add_node("n", "test.ops", "Scale", [x], [y], params)
    assert caught.value.number == 6005
    texts = [p.message for p in caught.value.problems]
    assert len(texts) == 2
    assert "did you mean 'factor'?" in texts[0]
    assert "INT_32" in texts[1]
    with pytest.raises(OpError, match="does not match") as caught:
        graph.add_node("n", "test.ops", "Scale", [x], [y])
    assert "(3,)" in caught.value.problems[0].message
    with pytest.raises(OpError) as caught:
        graph.add_node("n", "test.ops", "Scail", [x], [y])
    assert caught.value.problems[0].hint == "did you mean 'Scale'?"


def test_duplicate_tensor_names(context: runtime.Context) -> None:
    graph = context.create_graph("g")
    graph.create_tensor("x", DType.FLOAT_32, (2,))
    with pytest.raises(GraphError, match="duplicate tensor name 'x'") as caught:
        graph.create_tensor("x", DType.FLOAT_32, (2,))
    assert caught.value.number == 7003


def test_finalize_lists_every_fault_of_the_graph(context: runtime.Context) -> None:
    graph = context.create_graph("g")
    graph.create_tensor("a", DType.FLOAT_32, (2,), TensorKind.STATIC)
    graph.create_tensor("b", DType.FLOAT_32, (2,), TensorKind.APP_READ)
    with pytest.raises(GraphError) as caught:
        graph.finalize()
    assert len(caught.value.problems) == 2
    assert caught.value.exit_code == 3


def test_finalize_lists_every_node_the_backend_refuses(context: runtime.Context) -> None:
    graph = context.compose(model(chain("Scale", "Scale", dtype=DType.FLOAT_64)))[0]
    with pytest.raises(UnsupportedOpError) as caught:
        graph.finalize()
    assert [p.where for p in caught.value.problems] == ["Scale node 'n0'", "Scale node 'n1'"]
    assert "no-float64" in caught.value.problems[0].message
    assert caught.value.exit_code == 4


def test_validate_op_gives_the_verdict(backend: runtime.Backend) -> None:
    x, y = (Tensor(n, DType.FLOAT_64, (2,)) for n in "xy")
    verdict = backend.validate_op(Node("n", "test.ops", "Scale", [x], [y]))
    assert (verdict.ok, verdict.rule, verdict.allowed) == (False, "no-float64", ("FLOAT_32",))
    with pytest.raises(OpError):
        backend.validate_op(Node("n", "test.ops", "Scale", [x, x], [y]))


def test_options_are_typed_and_unknown_keys_are_all_reported() -> None:
    made = runtime.Backend.create(ReferenceBackend, {"level": 3}, OPS)
    assert made.plugin.options.level == 3  # type: ignore[attr-defined]
    with pytest.raises(ConfigError) as caught:
        runtime.Backend.create(ReferenceBackend, {"leve": 3, "nams": [], "level": 1}, OPS)
    assert caught.value.code == "CONFIG_UNKNOWN_KEY"
    assert [p.hint for p in caught.value.problems] == [
        "did you mean 'level'?",
        "did you mean 'names'?",
    ]
    with pytest.raises(ConfigError, match="int") as caught:
        runtime.Backend.create(ReferenceBackend, {"level": "three"}, OPS)
    assert "$.level" in caught.value.where


def test_unknown_backend_suggests() -> None:
    with pytest.raises(PluginError) as caught:
        runtime.Backend.create("no-such-backend-anywhere")
    assert caught.value.exit_code == 6


class DeadBackend(ReferenceBackend):
    """One whose device is not there."""

    name: ClassVar[str] = "dead"

    def __init__(self, ops: OpRegistry, options: object) -> None:
        raise OSError("no such device")


def test_a_backend_that_cannot_be_started_is_named() -> None:
    with pytest.raises(BackendError, match="OSError: no such device") as caught:
        runtime.Backend.create(DeadBackend, ops=OPS)
    error = caught.value
    assert (error.where, error.exit_code) == ("backend 'dead'", 7)
    assert error.code == "BACKEND_ERROR_CANNOT_INITIALIZE"
    assert isinstance(error.__cause__, OSError)


@pytest.mark.parametrize("method", ["validate", "prepare"])
def test_a_backend_whose_code_fails_is_named(
    monkeypatch: pytest.MonkeyPatch, context: runtime.Context, method: str
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(ReferenceBackend, method, fail)
    with pytest.raises(BackendError, match=f"`{method}` failed: ZeroDivisionError") as caught:
        composed(context, "Scale").finalize()
    assert caught.value.where == "backend 'reference'"
    codes = {"validate": "GRAPH_ERROR_GENERAL", "prepare": "GRAPH_ERROR_FINALIZE_FAILED"}
    assert caught.value.code == codes[method]
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("libQnnHtp.so", "htp"),
        ("/sdk/lib/x86_64-linux-clang/libQnnCpu.so", "cpu"),
        ("QnnCpu.dll", "cpu"),
        ("C:\\sdk\\QnnSaver.dll", "saver"),
        ("cpu", "cpu"),
        ("/a/libQnnHtpAltPrepStub.so", "htp"),
        ("libQnnDspV66Stub.so", "dsp:v66"),
        ("/sdk/lib/libQnnHtpV73Stub.so", "htp:v73"),
        ("libQnnHtpV73CalculatorStub.so", "htp:v73"),
        ("QnnHtpV81Stub.dll", "htp:v81"),
        ("libQnnHtpV68Skel.so", "htp:v68"),
        ("dspv65", "dsp:v65"),
        ("dspv79", "htp:v79"),
        ("hetero:dspv73,libQnnCpu.so", "hetero:htp:v73,cpu"),
        ("hetero:" * 3000 + "cpu", "hetero:" * 3000 + "cpu"),
    ],
)
def test_the_sdks_library_names_are_backends(text: str, name: str) -> None:
    assert runtime.backend_name(text) == name


def test_what_a_backend_cannot_do_fails_cleanly() -> None:
    with runtime.Backend.create(BareBackend, ops=OPS) as backend:
        context = backend.create_context()
        graph = composed(context, "Scale")
        graph.finalize()
        out = {"y": np.empty_like(X)}
        refused = {
            9000 - 8000: lambda: backend.create_signal(),
            1000: lambda: backend.create_profile(runtime.ProfileLevel.DETAILED),
        }
        for number, call in refused.items():
            with pytest.raises(BackendError, match="capability") as caught:
                call()
            assert caught.value.number == number
        with pytest.raises(BackendError, match="'asynchronous'"):
            graph.execute_async({"x": X}, out)
        with pytest.raises(BackendError, match="'priority'"):
            graph.set_config({"graph_priority": "high"})
        with pytest.raises(BackendError, match="'memory_handles'"):
            context.register_memory(X, DType.FLOAT_32)
        assert not backend.has_capability(304)
        np.testing.assert_array_equal(graph.execute({"x": X})["y"], X * 2)
    with pytest.raises(BackendError) as caught:
        runtime.Backend.create(BareBackend, ops=OPS).has_capability(7)
    assert caught.value.number == 2000


def test_the_null_backend_fits_the_contract() -> None:
    with runtime.Backend.create(NullBackend, ops=OPS) as backend:
        graph = composed(backend.create_context(), "Scale", "Scale")
        graph.finalize()
        profile = backend.create_profile(runtime.ProfileLevel.DETAILED)
        out = graph.execute({"x": X}, profile=profile)
        assert not out["y"].any()
        (event,) = profile.events
        assert [child.identifier for child in event.children] == ["n0", "n1"]
        plugin, checked = graph.context.plugin, check_ops(graph.ir, OPS)
        image = plugin.image({"net": plugin.prepare(checked, PrepareRequest())})
        again = plugin.restore(image, lambda _: checked, lambda _: PrepareRequest())
        assert plugin.image({"net": again["net"].prepared}) == image


def test_every_call_of_the_table_is_a_method_with_its_arguments() -> None:
    classes = (
        runtime.Backend,
        runtime.Device,
        runtime.Context,
        runtime.Graph,
        runtime.Profile,
        runtime.Signal,
        runtime.Memory,
        runtime.Log,
    )
    found = {
        (cls.kind, name): getattr(cls, name)
        for cls in classes
        for name in dir(cls)
        if hasattr(getattr(cls, name), handle_module.CALL_MARK)
    }
    calls = {getattr(method, handle_module.CALL_MARK) for method in found.values()}
    assert (calls, len(found)) == (runtime.API.keys(), len(runtime.API))
    for (kind, name), method in found.items():
        function = runtime.API[getattr(method, handle_module.CALL_MARK)]
        given = [p for p in inspect.signature(method).parameters if p != "self"]
        assert given == list(function.args), function.name
        for parameter, value in zip(given, function.args.values(), strict=True):
            default = inspect.signature(method).parameters[parameter].default
            if value.nullable:
                assert default in (None, inspect.Parameter.empty), (function.name, parameter)
            elif value.default is not REQUIRED:
                assert default == value.default, (function.name, parameter)
        assert (function.owner, function.method) == ("" if name == "create" else kind, name)
