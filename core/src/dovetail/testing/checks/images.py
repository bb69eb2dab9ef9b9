"""Images: prepared graphs as plain data, and what is restored from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from dovetail import runtime
from dovetail.errors import BackendError, ContainerError
from dovetail.ir import Array
from dovetail.ops import CheckedGraph, check_ops
from dovetail.runtime.contract import (
    BackendContext,
    Fingerprint,
    Image,
    PrepareRequest,
    Restored,
)
from dovetail.testing.bench import Bench
from dovetail.testing.checks._plugin import (
    demand_error,
    demand_rejection,
    is_unsupported,
    require_support,
    run_sample,
    update,
    updateable_sample,
)
from dovetail.testing.outcome import Failure, Unsupported, demand
from dovetail.testing.preparing import open_context


def images_are_plain_data(bench: Bench) -> None:
    """Check that `image` returns plain data, equal each time, with the backend's fingerprint."""
    with bench.create() as backend:
        _, checked, image = _stored(bench, backend)
        again = _image_of(backend, checked)
        demand(_json(again.graphs) == _json(image.graphs), "two images of a graph differ")
        demand(again.opaque == image.opaque, "the blobs of two images of a graph differ")
        device = backend.plugin.configs.device()
        wanted = backend.plugin.fingerprint(device)
        demand(image.fingerprint == wanted, f"the fingerprint is {image.fingerprint}")
        demand(bool(image.graphs) or bool(image.opaque), "the image is empty")


def restored_graphs_return_the_same(bench: Bench) -> None:
    """Check that a graph restored on another handle returns the same, and has an equal image."""
    with bench.create() as backend, bench.create() as other:
        graph, checked, image = _stored(bench, backend)
        context = open_context(other.plugin)
        found = _restored(context, image, checked, graph.name)
        _judge(bench, found, graph)
        again = _transferred(context.image({graph.name: found.prepared}))
        demand(_json(again.graphs) == _json(image.graphs), "the image of a restored graph differs")
        demand(again.opaque == image.opaque, "the blob of a restored graph differs")
        demand(again.blobs.keys() == image.blobs.keys(), "the image of a restored graph differs")
        found.prepared.close()
        context.close()


def graphs_are_restored_without_their_model(bench: Bench) -> None:
    """Check that a graph is restored from its image alone, or the backend says that it cannot."""
    with bench.create() as backend, bench.create() as other:
        graph, _, image = _stored(bench, backend)
        try:
            found = _restored(open_context(other.plugin), image, None, graph.name)
        except BackendError as error:
            if is_unsupported(error):
                raise Unsupported(error.message) from error
            raise
        _judge(bench, found, graph)


def damaged_images_are_rejected(bench: Bench) -> None:
    """Check that damaged images and those of another fingerprint raise a ContainerError."""
    with bench.create() as backend:
        graph, checked, image = _stored(bench, backend)
        context = open_context(backend.plugin)
        for what, damaged, code in _damages(image):
            error = demand_error(
                lambda d=damaged: _restored(context, d, checked, graph.name),  # type: ignore[misc]
                ContainerError,
                what,
            )
            demand(code in {"", error.code}, f"{what}: expected {code}, got {error.code}")
            demand(error.message, f"{what}: the error has no message")
        _judge(bench, _restored(context, image, checked, graph.name), graph)


def sections_hold_what_was_updated(bench: Bench) -> None:
    """Check that a section has the updated tensors, and `apply` uses them and nothing else."""
    with bench.create() as backend:
        schema = bench.schema(backend.create_context())
        first, second = (updateable_sample(bench, schema, shift) for shift in (0, 1))
        context = open_context(backend.plugin)
        _require_sections(bench, backend, context)
        require_support(backend, first)
        request = PrepareRequest(backend.plugin.configs.graph())
        graphs = [updateable_sample(bench, schema, 0) for _ in range(3)]
        base, updated, fresh = (context.prepare(check_ops(g, backend.ops), request) for g in graphs)
        update(updated, graphs[1], second)
        static = [t.name for t in first.tensors.values() if t.kind.is_updateable]
        wanted = [run_sample(bench, p, static=static) for p in (base, updated)]
        fresh.apply(_transferred(updated.section(static)))
        found = run_sample(bench, fresh, static=static)
        bench.demand_same(found, wanted[1], "an applied section is not used")
        found = run_sample(bench, base, static=static)
        bench.demand_same(found, wanted[0], "an applied section changes another graph")
        fresh.apply(_transferred(updated.section(())))
        found = run_sample(bench, fresh, static=static)
        bench.demand_same(found, wanted[1], "a section of no tensors changes some")
        fresh.apply(_transferred(base.section(static)))
        found = run_sample(bench, fresh, static=static)
        bench.demand_same(found, wanted[0], "the section of the base graph is not used")


CHECKS = (
    images_are_plain_data,
    restored_graphs_return_the_same,
    graphs_are_restored_without_their_model,
    damaged_images_are_rejected,
    sections_hold_what_was_updated,
)


def _stored(bench: Bench, backend: runtime.Backend) -> tuple[runtime.Graph, CheckedGraph, Image]:
    """Return the finalized sample, its checked graph, and its image as a file would hold it.

    Raises:
        Unsupported: The backend has no images, and says so.
    """
    graph = bench.finalized(backend.create_context())
    checked = check_ops(graph.ir, backend.ops)
    if not backend.capabilities.caching:
        context, empty = open_context(backend.plugin), Image(Fingerprint(), {})
        demand_rejection(lambda: context.image({}))
        demand_rejection(lambda: context.restore(empty, None, lambda _: PrepareRequest()))
        raise Unsupported("raises the right error")
    return graph, checked, _image_of(backend, checked)


def _image_of(backend: runtime.Backend, checked: CheckedGraph) -> Image:
    context = open_context(backend.plugin)
    prepared = context.prepare(checked, PrepareRequest(backend.plugin.configs.graph()))
    return _transferred(context.image({checked.name: prepared}))


def _json(plans: Mapping[str, Any]) -> object:
    """Return plans as JSON stores them.

    Raises:
        Failure: They are not of JSON types.
    """
    try:
        return msgspec.json.decode(msgspec.json.encode(plans))
    except (TypeError, ValueError) as error:
        raise Failure(f"the plans are not of JSON types: {error}") from error


def _transferred(image: Image) -> Image:
    """Return an image as another process reads it."""
    return Image.from_bytes(image.to_bytes())


def _restored(
    context: BackendContext, image: Image, checked: CheckedGraph | None, name: str
) -> Restored:
    graph = None if checked is None else lambda _: checked
    found = context.restore(image, graph, lambda _: PrepareRequest())
    demand(set(found) == {name}, f"the restored graphs are {sorted(found)}")
    return found[name]


def _judge(bench: Bench, found: Restored, graph: runtime.Graph) -> None:
    """Raise a Failure unless a restored graph has the interface of a graph and runs like it."""
    for mine, theirs in (
        (found.interface.inputs, graph.interface.inputs),
        (found.interface.outputs, graph.interface.outputs),
    ):
        specs = [{n: end.tensor.spec for n, end in ends.items()} for ends in (mine, theirs)]
        demand(specs[0] == specs[1], f"the restored interface has {specs[0]}, not {specs[1]}")
    for shift in (0, 1):
        wanted = graph.execute(bench.feeds(shift))
        got = run_sample(bench, found.prepared, shift=shift)
        bench.demand_same(got, wanted, "the restored graph differs")


def _damages(image: Image) -> Iterator[tuple[str, Image, str]]:
    """Yield descriptions of damage, damaged images, and the code of the error ("" for any)."""
    facts = {**image.fingerprint.facts, "dovetail.testing": "other"}
    other = replace(image, fingerprint=Fingerprint(facts))
    yield "another fingerprint", other, "CONTAINER_INCOMPATIBLE"
    for name, plan in image.graphs.items():
        for what, wrong in (("null", None), ("a text", "plan"), ("an empty object", {})):
            yield f"{what} as plan", replace(image, graphs={name: wrong}), ""
        if isinstance(plan, dict):
            for key in plan:
                cut = {k: v for k, v in plan.items() if k != key}
                yield f"a plan without '{key}'", replace(image, graphs={name: cut}), ""
    for key, array in image.blobs.items():
        others = {k: v for k, v in image.blobs.items() if k != key}
        yield f"an image without blob '{key}'", replace(image, blobs=others), ""
        short: Array = array.reshape(-1)[:-1].copy()
        yield f"a short blob '{key}'", replace(image, blobs={**others, key: short}), ""
    if image.opaque:
        half = image.opaque[: len(image.opaque) // 2]
        yield "half a blob", replace(image, opaque=half), ""
        yield "no blob", replace(image, opaque=b""), ""
        altered = bytes(byte ^ 0x55 for byte in image.opaque)
        yield "an altered blob", replace(image, opaque=altered), ""


def _require_sections(bench: Bench, backend: runtime.Backend, context: BackendContext) -> None:
    """Raise Unsupported if the backend has no sections, and says so."""
    graph = bench.composed(backend.create_context())
    checked = check_ops(graph.ir, backend.ops)
    prepared = context.prepare(checked, PrepareRequest(backend.plugin.configs.graph()))
    able = backend.capabilities
    if able.updates and able.caching:
        try:
            prepared.section(())
        except BackendError as error:
            demand(is_unsupported(error), f"raised {error.code}: {error}")
        else:
            return
    demand_rejection(lambda: prepared.section(()))
    demand_rejection(lambda: prepared.apply(Image(Fingerprint(), {})))
    raise Unsupported("raises the right error")
