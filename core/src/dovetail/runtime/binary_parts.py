"""Context binaries and their sections as bytes, in parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

import dovetail
from dovetail import ir
from dovetail.container import (
    ContextContent,
    Producer,
    StoredContextGraph,
    aligned_empty,
    read_only,
)
from dovetail.errors import BackendError, Problem
from dovetail.ir import Array, Blob
from dovetail.runtime.compatibility import used_facts
from dovetail.runtime.config import changed_settings
from dovetail.runtime.contract import Prepared
from dovetail.runtime.image import Image
from dovetail.runtime.plugin_errors import translate_errors
from dovetail.runtime.residency import all_loaded

if TYPE_CHECKING:  # contexts write binaries
    from dovetail.runtime.context import Context
    from dovetail.runtime.graph import Graph


def binary_parts(
    context: Context, *, embed_model: bool, where: str = "context binary"
) -> Iterable[bytes | memoryview]:
    """Return the bytes of a context's binary, in order.

    Args:
        context: The context.
        embed_model: Whether it has the graphs themselves, too, as far as they are known.
        where: Name of the file, for errors.

    Raises:
        BackendError: The backend has no binaries, the context has no graphs, or one of them is not
            finalized or cannot be restored without its model.
    """
    context.backend.require("caching", "CONTEXT_ERROR_UNSUPPORTED_FEATURE")
    graphs = tuple(context.graphs.values())
    if not graphs:
        raise BackendError(
            "the context has no graphs",
            code="CONTEXT_ERROR_GET_BINARY_FAILED",
            hint="compose and finalize graphs first",
        )
    prepared = {graph.name: graph.prepared() for graph in graphs}
    with (
        all_loaded(prepared) as loaded,
        translate_errors(context.backend.name, "`image` failed", "CONTEXT_ERROR_GET_BINARY_FAILED"),
    ):
        if not embed_model:
            _require_recipes(loaded)
        image = context.plugin.image(loaded)
    stored = tuple(
        StoredContextGraph(
            name=graph.name,
            plan=image.graphs.get(graph.name),
            inputs=tuple(end.tensor for end in graph.whole_interface.inputs.values()),
            outputs=tuple(end.tensor for end in graph.whole_interface.outputs.values()),
            shared=graph.shared_names,
            model=graph.model() if embed_model else None,
            digest=graph.digest(),
            config=changed_settings(graph.config),
            observed=tuple(sorted(graph.observed.names)),
            all_observed=graph.observed.everything,
            added_outputs=graph.added_outputs,
            memory_bytes=graph.memory_bytes,
        )
        for graph in graphs
    )
    return content_parts(context, graphs, image, stored, context.shared_tensors(), where)


def _require_recipes(graphs: Mapping[str, Prepared]) -> None:
    """Raise if graphs cannot be restored without their models.

    Raises:
        BackendError: Some cannot; all are listed.
    """
    if found := [name for name, prepared in graphs.items() if prepared.needs_model]:
        raise BackendError(
            "graphs have steps that are made again from the model when they are restored",
            code="CONTEXT_ERROR_UNSUPPORTED_FEATURE",
            problems=[Problem("needs its model", f"graph '{name}'") for name in found],
            hint="embed the models (`embed_model=True`, --embed-model)",
        )


def written(parts: Iterable[bytes | memoryview], buffer: Array | None) -> Array:
    """Return bytes in one array: in the buffer if there is one, otherwise in an aligned one.

    Raises:
        BackendError: The buffer is not a writable array of bytes, or is too small.
    """
    if buffer is None:
        parts = list(parts)
        # not joined as bytes, which would be copied again to be aligned
        return read_only(written(parts, aligned_empty(sum(map(len, parts)))))
    if buffer.dtype != np.uint8 or buffer.ndim != 1 or not buffer.flags.writeable:
        raise BackendError(
            "the buffer must be a writable array of uint8 with one axis",
            code="CONTEXT_ERROR_INVALID_ARGUMENT",
        )
    end = 0
    for part in parts:
        start, end = end, end + len(part)
        if end > buffer.size:
            raise BackendError(
                f"the buffer has {buffer.size} bytes, which are too few",
                code="CONTEXT_ERROR_INVALID_ARGUMENT",
                hint="ask for the size first",
            )
        buffer[start:end] = np.frombuffer(part, np.uint8)
    return buffer[:end]


def content_parts(
    context: Context,
    graphs: Iterable[Graph],
    image: Image,
    stored: tuple[StoredContextGraph, ...],
    tensors: tuple[ir.Tensor, ...],
    where: str,
    *,
    is_section: bool = False,
) -> Iterable[bytes | memoryview]:
    """Return the bytes of a context binary or a section, in order.

    Args:
        context: The context.
        graphs: Its graphs that are stored.
        image: What the backend stores of them.
        stored: Their entries in the manifest.
        tensors: The context's tensors.
        where: Name of the file, for errors.
        is_section: Whether it is a section.
    """
    backend = context.backend
    packages = dict(sorted(item for graph in graphs for item in graph.op_packages().items()))
    options = type(backend.options).without_files(changed_settings(backend.options))
    return ContextContent(
        producer=Producer("dovetail", dovetail.__version__),
        backend=backend.name,
        options=options,
        fingerprint=used_facts(image.fingerprint.facts, packages),
        op_packages=packages,
        tensors=tensors,
        graphs=stored,
        blobs={key: Blob(array) for key, array in image.blobs.items()},
        opaque=image.opaque,
        is_whole=image.is_whole or bool(image.opaque),
        device={} if is_section else changed_settings(context.device.config),
        is_section=is_section,
    ).parts(where)
