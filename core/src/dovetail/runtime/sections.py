"""Sections of context binaries: the updates of graphs, and their use in other processes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np

from dovetail.container import ContextFile, StoredContextGraph
from dovetail.errors import ContainerError, Problem
from dovetail.ir import Array, Encoding
from dovetail.runtime.binary_parts import content_parts
from dovetail.runtime.contract import RunControl
from dovetail.runtime.image import Fingerprint, Image
from dovetail.runtime.plugin_errors import translate_errors

if TYPE_CHECKING:  # contexts create and use sections
    from dovetail.runtime.context import Context
    from dovetail.runtime.graph import Graph


def section_parts(
    context: Context, graphs: Sequence[Graph], where: str = "section"
) -> Iterable[bytes | memoryview]:
    """Return the bytes of a section: the tensors of graphs that were updated.

    Args:
        context: The context.
        graphs: The graphs.
        where: Name of the file, for errors.

    Raises:
        BackendError: The backend has no sections, or updates have not been finalized.
    """
    for capability in ("caching", "updates"):
        context.backend.require(capability, "CONTEXT_ERROR_UNSUPPORTED_FEATURE")
    stored: list[StoredContextGraph] = []
    blobs: dict[str, Array] = {}
    facts: dict[str, str] = {}
    for i, graph in enumerate(graphs):
        with translate_errors(
            context.backend.name, "`section` failed", "CONTEXT_ERROR_GET_BINARY_FAILED"
        ):
            image = graph.prepared().section(graph.revision.names)
        facts |= image.fingerprint.facts
        # backends choose their keys, which may be the same for all graphs
        blobs |= {f"{i}/{key}": array for key, array in image.blobs.items()}
        if image.opaque:
            blobs[str(i)] = np.frombuffer(image.opaque, np.uint8)
        stored.append(
            StoredContextGraph(
                name=graph.name,
                plan=image.graphs.get(graph.name),
                digest=graph.base_digest(),
                updated=graph.updated_tensors(),
            )
        )
    joined = Image(Fingerprint(facts), {}, blobs)
    return content_parts(context, graphs, joined, tuple(stored), (), where, is_section=True)


def apply_section(
    file: ContextFile, context: Context, chosen: Sequence[Graph], control: RunControl
) -> dict[str, dict[str, Encoding]]:
    """Use the tensors of a section in finalized graphs: in all of them, or after an error in none.

    Args:
        file: The section.
        context: The context.
        chosen: The graphs that may be changed; empty for all that were loaded.
        control: Can end the work before it begins on a graph.

    Returns:
        The new encodings of inputs and outputs, by graph and name.

    Raises:
        ContainerError: The section is damaged, or of another base.
        BackendError: A graph cannot be changed.
    """
    graphs = _graphs(file, context, chosen)
    # before the first one is changed
    tensors = [each.section_tensors(file) for each in graphs]
    images = _images(file, [each.name for each in graphs])
    found: dict[str, dict[str, Encoding]] = {}
    with ExitStack() as undo:
        for each, changed, image in zip(graphs, tensors, images, strict=True):
            revert = each.undo_of(changed) if each is not graphs[-1] else None
            found[each.name] = each.apply(changed, image, control)
            if revert is not None:
                undo.callback(revert)
        undo.pop_all()
    return found


def _graphs(file: ContextFile, context: Context, chosen: Sequence[Graph]) -> tuple[Graph, ...]:
    """Return the graphs of a context that a section changes, after checking their bases.

    Args:
        file: The section.
        context: The context.
        chosen: The graphs that may be changed; empty for all that were loaded.

    Raises:
        ContainerError: The section lacks a chosen graph, or has graphs that the context does not
            have, or with another base; all are listed.
    """
    faults: list[Problem] = []
    found: list[Graph] = []
    loaded = context.config.enable_graphs or file.graphs
    names = [graph.name for graph in chosen] or [n for n in file.graphs if n in loaded]
    for name in names:
        entry, graph = file.graphs.get(name), context.graphs.get(name)
        if entry is None or graph is None:
            where = "the section" if entry is None else "the context"
            faults.append(Problem(f"{where} has no graph '{name}'"))
        elif not entry.digest or entry.digest != graph.base_digest():
            faults.append(Problem("the section is of another base", f"graph '{name}'"))
        else:
            found.append(graph)
    if faults:
        raise ContainerError(
            "the section does not match the context",
            code="CONTAINER_INCOMPATIBLE",
            where=file.where,
            problems=faults,
            hint="apply it to the context binary that it was created with",
        )
    return tuple(found)


def _images(file: ContextFile, names: Sequence[str]) -> list[Image]:
    """Return the images of graphs in a section; see `section_parts`.

    Raises:
        ContainerError: One is damaged.
    """
    blobs: dict[str, dict[str, Array]] = {}
    for key, array in file.blobs.items():
        index, _, rest = key.partition("/")
        blobs.setdefault(index, {})[rest] = array
    facts = Fingerprint(file.manifest.fingerprint)
    numbers = {name: str(i) for i, name in enumerate(file.graphs)}
    images = []
    for name in names:
        plan, own = file.plan(name), blobs.get(numbers[name], {})
        opaque = own.pop("", None)
        plans = {} if plan is None else {name: plan}
        images.append(Image(facts, plans, own, b"" if opaque is None else opaque.tobytes()))
    return images
