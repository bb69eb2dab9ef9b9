"""Sections of quantized graphs: other weights and encodings, with and without the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dovetail import runtime
from dovetail.container import ContextFile, Model, Producer
from dovetail.errors import ContainerError
from dovetail.ir import DType, Graph, ScaleOffset, Tensor, TensorKind
from dovetail.plugins.ops import installed_ops
from dovetail_opset.build import add, static

WIDTH = 64
U8, S8 = DType.UFIXED_POINT_8, DType.SFIXED_POINT_8
# On `cpu`, NumPy computes products of these types, whose steps have no recipes.
BACKENDS = (("cpu", True), ("cpu", False), ("htp", True), ("htp", False), ("hetero:htp,cpu", False))


def adapted(shift: int = 0, scale: float = 0.02, end: float = 0.5) -> Graph:
    """Return two layers; the second has updateable weights and an updateable output."""
    graph, rng = Graph("net"), np.random.default_rng(0)
    encoding = ScaleOffset(0.02, -128)
    x = graph.add_tensor(Tensor("x", U8, (1, WIDTH), TensorKind.APP_WRITE, encoding=encoding))
    weights = rng.integers(-128, 127, (2, WIDTH, WIDTH))
    weights[1] = (weights[1] + 128 + shift) % 256 - 128
    made = [
        static(graph, name, array.astype(np.int8), dtype=S8, encoding=ScaleOffset(each, 0))
        for name, array, each in zip(("base", "adapter"), weights, (0.01, scale), strict=True)
    ]
    made[1].kind = TensorKind.UPDATEABLE_STATIC
    inner = Tensor("inner", U8, (1, WIDTH), encoding=ScaleOffset(0.1, -100)).spec
    hidden = add(graph, "FullyConnected", [x, made[0]], name="hidden", spec=inner)
    spec = Tensor("y", U8, (1, WIDTH), encoding=ScaleOffset(end, -128)).spec
    y = add(graph, "FullyConnected", [hidden, made[1]], name="y", spec=spec)
    y.kind = TensorKind.UPDATEABLE_APP_READ
    return graph


def finalized(context: runtime.Context, graph: Graph) -> runtime.Graph:
    model = Model.of(graph, producer=Producer("test", "1"), registry=installed_ops())
    (handle,) = context.compose(model)
    handle.finalize()
    return handle


def feeds() -> dict[str, Any]:
    return {"x": np.random.default_rng(1).integers(0, 255, (1, WIDTH), np.uint8)}


def section_for(
    backend: runtime.Backend, *, embed_model: bool = False, **changes: Any
) -> tuple[Any, Any, Any]:
    """Return a base binary, a section of changes, and the changed outputs."""
    context = backend.create_context()
    graph, changed = finalized(context, adapted()), adapted(**changes)
    base = context.get_binary(embed_model=embed_model)
    for name in ("adapter", "y"):
        new, tensor = changed.tensor(name), graph.retrieve_tensor(name)
        if new.encoding != tensor.ir.encoding or new.data is not None:
            graph.update_tensor(tensor, new.data, new.encoding)
    graph.finalize()
    section = context.get_binary_section()
    fresh = finalized(backend.create_context(), changed)
    wanted = fresh.execute(feeds())["y"]
    np.testing.assert_array_equal(graph.execute(feeds())["y"], wanted)
    return base, section, wanted


@pytest.mark.parametrize(("name", "has_model"), BACKENDS)
def test_adapters_replace_each_other(name: str, has_model: bool) -> None:
    with runtime.Backend.create(name) as backend:
        adapters = [
            section_for(backend, embed_model=has_model, **changes)
            for changes in ({"shift": 9}, {"scale": 0.03, "shift": 5}, {"end": 0.7})
        ]
        base = adapters[0][0]
        assert all(np.array_equal(other, base) for other, *_ in adapters)
        original = finalized(backend.create_context(), adapted()).execute(feeds())["y"]
        context = backend.create_context_from_binary(base)
        graph = context.retrieve_graph("net")
        empty = context.get_binary_section()
        for i in (0, 1, 0, 2, 1, 1, 2, 0):
            _, section, wanted = adapters[i]
            context.apply_binary_section(section)
            np.testing.assert_array_equal(graph.execute(feeds())["y"], wanted)
            if i == 2:
                context.apply_binary_section(empty)
                np.testing.assert_array_equal(graph.execute(feeds())["y"], original)


def test_changed_encodings_of_outputs_are_returned() -> None:
    with runtime.Backend.create("htp") as backend:
        base, section, _ = section_for(backend, end=0.7)
        context = backend.create_context_from_binary(base)
        assert context.apply_binary_section(section) == {"net": {"y": ScaleOffset(0.7, -128)}}
        assert context.apply_binary_section(section) == {"net": {}}
        end = context.retrieve_graph("net").interface.outputs["y"]
        assert end.tensor.encoding == ScaleOffset(0.7, -128)
        back = context.apply_binary_section(section_for(backend, shift=1)[1])
        assert back == {"net": {"y": ScaleOffset(0.5, -128)}}


def test_sections_hold_what_changed_alone() -> None:
    with runtime.Backend.create("htp") as backend:
        base, weights, _ = section_for(backend, shift=9)
        _, encodings, _ = section_for(backend, scale=0.03)
    sizes = [sum(ContextFile.of(s, section=True).sizes()) for s in (weights, encodings)]
    # the adapter's weights, plain and packed (in two parts without VNNI), and a plan in the second
    assert sizes[0] < 4 * WIDTH * WIDTH + 8000
    assert sizes[1] < sizes[0] + 20_000
    assert base.size > 2 * WIDTH * WIDTH


def test_a_section_that_cannot_be_used_changes_nothing() -> None:
    with runtime.Backend.create("htp") as backend:
        base, section, wanted = section_for(backend, scale=0.03)
        context = backend.create_context_from_binary(base)
        graph = context.retrieve_graph("net")
        context.apply_binary_section(section)
        other = finalized(backend.create_context(), adapted(scale=0.01))
        with pytest.raises(ContainerError, match="does not match"):
            other.context.apply_binary_section(section)
        damaged = section.copy()
        damaged[damaged.size // 2] ^= 1
        with pytest.raises(ContainerError):
            context.apply_binary_section(damaged[: damaged.size - 64])
        np.testing.assert_array_equal(graph.execute(feeds())["y"], wanted)


@pytest.mark.parametrize("name", ["cpu", "htp"])
def test_binaries_and_sections_of_what_was_restored(name: str) -> None:
    """Contexts without models pass on what they were given."""
    with runtime.Backend.create(name) as backend:
        base, section, wanted = section_for(backend, shift=9)
        context = backend.create_context_from_binary(base)
        np.testing.assert_array_equal(context.get_binary(embed_model=False), base)
        context.apply_binary_section(section)
        other = backend.create_context_from_binary(base)
        other.apply_binary_section(context.get_binary_section())
        np.testing.assert_array_equal(other.retrieve_graph("net").execute(feeds())["y"], wanted)


@pytest.mark.parametrize("name", ["cpu", "htp"])
@pytest.mark.parametrize("changes", [{"shift": 5}, {"scale": 0.03, "shift": 5}, {"end": 0.7}])
def test_a_binary_after_an_update_and_a_section(name: str, changes: dict[str, Any]) -> None:
    with runtime.Backend.create(name) as backend:
        base, section, wanted = section_for(backend, embed_model=True, **changes)
        context = backend.create_context_from_binary(base)
        graph = context.retrieve_graph("net")
        updated = adapted(shift=9, scale=0.05)
        tensor = updated.tensor("adapter")
        graph.update_tensor(graph.retrieve_tensor("adapter"), tensor.data, tensor.encoding)
        graph.finalize()
        fresh = finalized(backend.create_context(), updated).execute(feeds())["y"]
        np.testing.assert_array_equal(graph.execute(feeds())["y"], fresh)
        other = backend.create_context_from_binary(base)
        other.apply_binary_section(context.get_binary_section())
        np.testing.assert_array_equal(other.retrieve_graph("net").execute(feeds())["y"], fresh)
        context.apply_binary_section(section)
        np.testing.assert_array_equal(graph.execute(feeds())["y"], wanted)
        for embed_model in (True, False):
            binary = context.get_binary(embed_model=embed_model)
            again = backend.create_context_from_binary(binary).retrieve_graph("net")
            np.testing.assert_array_equal(again.execute(feeds())["y"], wanted)


@pytest.mark.parametrize("name", ["cpu", "htp"])
def test_a_binary_after_an_update_of_an_output(name: str) -> None:
    with runtime.Backend.create(name) as backend:
        base, _, wanted = section_for(backend, embed_model=True, end=0.7)
        context = backend.create_context_from_binary(base)
        graph = context.retrieve_graph("net")
        graph.update_tensor(graph.retrieve_tensor("y"), None, ScaleOffset(0.7, -128))
        graph.finalize()
        for embed_model in (True, False):
            binary = context.get_binary(embed_model=embed_model)
            again = backend.create_context_from_binary(binary).retrieve_graph("net")
            np.testing.assert_array_equal(again.execute(feeds())["y"], wanted)
            assert again.interface.outputs["y"].tensor.encoding == ScaleOffset(0.7, -128)
