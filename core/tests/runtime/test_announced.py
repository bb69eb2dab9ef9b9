"""Calls of handles: which are announced, and with what; the fast path changes none of it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from reference_backend import OPS, ReferenceBackend, chain, finalized

from dovetail import runtime
from dovetail.container import Model, Producer
from dovetail.errors import BackendError, ConfigError
from dovetail.ir import DType
from dovetail.plugins.events import ApiCall
from dovetail.plugins.hooks import hooks
from dovetail.plugins.hookspecs import hookimpl

X = np.arange(6, dtype=np.float32).reshape(2, 3)


class Seen:
    """Collects the ends of calls."""

    def __init__(self) -> None:
        self.calls: list[ApiCall] = []

    @hookimpl
    def dovetail_api_return(self, call: ApiCall) -> None:
        self.calls.append(call)


@pytest.fixture
def graph() -> Iterator[runtime.Graph]:
    with runtime.Backend.create(ReferenceBackend, ops=OPS) as backend:
        yield finalized(backend, "Scale")


def test_calls_are_announced_with_owner_and_all_arguments(graph: runtime.Graph) -> None:
    seen = Seen()
    with hooks.registered(seen), runtime.Backend.create(ReferenceBackend, ops=OPS) as backend:
        graph.execute({"x": X}, signal=None)
        graph.execute(inputs={"x": X})
    create, *executes, _ = seen.calls
    assert (create.function, create.owner) == ("backend_create", None)
    assert create.arguments == {"name": ReferenceBackend, "config": None, "ops": OPS}
    assert create.result is backend
    for call in executes:
        assert (call.function, call.owner) == ("graph_execute", graph)
        assert list(call.arguments) == list(runtime.API["graph_execute"].args)
        assert list(call.arguments.values())[1:] == [None] * 4


def test_rejected_calls_and_calls_of_freed_handles_are_announced(graph: runtime.Graph) -> None:
    seen, odd = Seen(), object()
    with hooks.registered(seen):
        with pytest.raises(ConfigError, match="argument 'profile' cannot be an object"):
            graph.execute({"x": X}, profile=odd)  # type: ignore[arg-type]
        graph.context.free()
        with pytest.raises(BackendError, match="was freed"):
            graph.execute({"x": X})
        with pytest.raises(BackendError, match="was freed"):
            graph.context.free()
    assert [(call.function, type(call.error)) for call in seen.calls] == [
        ("graph_execute", ConfigError),
        ("context_free", type(None)),
        ("graph_execute", BackendError),
        ("context_free", BackendError),
    ]
    assert seen.calls[0].arguments["profile"] is odd


def test_a_call_without_hooks_checks_its_arguments_each_time(graph: runtime.Graph) -> None:
    for _ in range(2):  # the types of the first run are remembered
        np.testing.assert_array_equal(graph.execute({"x": X})["y"], X * 2)
        for wrong in ([X], 5, None):
            with pytest.raises(ConfigError, match="argument 'inputs' cannot be") as caught:
                graph.execute(wrong)  # type: ignore[arg-type]
            assert (caught.value.where, caught.value.hint) == ("Graph.execute", "pass a mapping")
        with pytest.raises(ConfigError, match="argument 'signal' cannot be"):
            graph.execute({"x": X}, None, None, 5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unheard_of"):
        graph.execute({"x": X}, unheard_of=1)  # type: ignore[call-arg]


def test_items_of_sequences_are_checked_each_time(graph: runtime.Graph) -> None:
    context = graph.context
    other = context.create_graph("other")
    other.create_tensor("a", DType.FLOAT_32, (1,))
    with pytest.raises(ConfigError, match="argument 'shape' cannot contain an object of type str"):
        other.create_tensor("b", DType.FLOAT_32, ("1",))  # type: ignore[arg-type]


def test_methods_look_as_they_are_written() -> None:
    execute: Any = runtime.Graph.execute
    assert execute.__name__ == "execute"
    assert list(inspect.signature(execute).parameters)[:3] == ["self", "inputs", "outputs"]
    assert "Run the graph once" in execute.__doc__


def test_composing_is_announced_call_by_call(graph: runtime.Graph) -> None:
    seen = Seen()
    model = Model.of(chain("Scale", name="b"), producer=Producer("test", "1"), registry=OPS)
    with hooks.registered(seen):
        graph.context.compose(model)
    assert [call.function for call in seen.calls] == [
        "graph_create",
        "graph_create_tensor",
        "graph_create_tensor",
        "graph_add_node",
    ]
