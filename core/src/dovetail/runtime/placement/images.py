"""Images of several members in one, and graphs in parts as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from dovetail.errors import ContainerError, Problem
from dovetail.runtime.contract import Fingerprint, Image
from dovetail.runtime.interface import Endpoint, Interface
from dovetail.runtime.placement.report import Placement
from dovetail.typed import convert


class StoredPart(msgspec.Struct, frozen=True):
    """A part of a graph in an image.

    Attributes:
        name: Unique in the image.
        backend: Name of the member that runs it.
        nodes: Names of its nodes.
        updateable: Names of the UPDATEABLE tensors that they use.
        plan: The member's plan of it; None if it is in an opaque blob.
    """

    name: str
    backend: str
    nodes: tuple[str, ...]
    updateable: tuple[str, ...]
    plan: Any = None


class StoredGraph(msgspec.Struct, frozen=True):
    """A graph in an image.

    Attributes:
        inputs, outputs: Names of its inputs and outputs.
        parts: Its parts, in the order in which they run.
        placement: The report on them.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parts: tuple[StoredPart, ...]
    placement: Placement


def joined_fingerprint(prints: Iterable[Fingerprint], **facts: str) -> Fingerprint:
    """Return several fingerprints as one; the facts of each have its index before their names.

    Args:
        prints: The fingerprints.
        facts: Other facts.
    """
    joined = {f"{i}/{name}": v for i, one in enumerate(prints) for name, v in one.facts.items()}
    return Fingerprint({**facts, **joined})


def joined_image(
    images: Sequence[Image], fingerprint: Fingerprint, graphs: Mapping[str, Any]
) -> Image:
    """Return several images as one; the blobs of each have its index before their keys.

    Args:
        images: The images.
        fingerprint: A `joined_fingerprint` of theirs.
        graphs: The plans of the joined image, with those of the images in them.
    """
    blobs = {f"{i}/{key}": blob for i, one in enumerate(images) for key, blob in one.blobs.items()}
    for i, one in enumerate(images):
        if one.opaque:
            blobs[str(i)] = np.frombuffer(one.opaque, np.uint8)
    is_whole = any(one.is_whole or one.opaque for one in images)
    return Image(fingerprint, graphs, blobs, is_whole=is_whole)


def image_of(joined: Image, index: int, graphs: Mapping[str, Any]) -> Image:
    """Return one of the images in a joined one, with these plans."""
    prefix = f"{index}/"
    facts = {
        name.removeprefix(prefix): value
        for name, value in joined.fingerprint.facts.items()
        if name.startswith(prefix)
    }
    blobs = {
        key.removeprefix(prefix): blob
        for key, blob in joined.blobs.items()
        if key.startswith(prefix)
    }
    opaque = joined.blobs.get(str(index))
    return Image(Fingerprint(facts), graphs, blobs, b"" if opaque is None else opaque.tobytes())


def stored_graphs(image: Image) -> dict[str, StoredGraph]:
    """Return the graphs of an image.

    Raises:
        ContainerError: The graphs do not have their form.
    """
    return {
        name: convert(plan, StoredGraph, where=f"graph '{name}' of the image", error=ContainerError)
        for name, plan in image.graphs.items()
    }


def require_members(stored: Mapping[str, StoredGraph], members: Sequence[str]) -> None:
    """Check the graphs of an image as far as they can be before they are restored.

    Args:
        stored: The graphs.
        members: Names of the members.

    Raises:
        ContainerError: The graphs have no parts or parts of other backends, or two parts have one
            name.
    """
    parts = [part for graph in stored.values() for part in graph.parts]
    faults = [
        Problem(f"backend '{part.backend}' is not in the order", f"part '{part.name}'")
        for part in parts
        if part.backend not in members
    ]
    if len({part.name for part in parts}) < len(parts):
        faults.append(Problem("two parts have one name"))
    faults += [
        Problem("the graph has no parts", f"graph '{name}'")
        for name, graph in stored.items()
        if not graph.parts
    ]
    if faults:
        raise damaged("the image is inconsistent", faults)


def interface_of(name: str, stored: StoredGraph, parts: Sequence[Interface]) -> Interface:
    """Return the inputs and outputs of a restored graph.

    Args:
        name: Name of the graph.
        stored: The graph in the image.
        parts: The inputs and outputs of its parts, in order.

    Raises:
        ContainerError: A value is read before it is written, written twice, or read in another
            form than it is written in, or the parts lack inputs or outputs of the graph.
    """
    inputs: dict[str, Endpoint] = {}
    written: dict[str, Endpoint] = {}
    faults: list[Problem] = []
    for part in parts:
        for tensor, end in part.inputs.items():
            known = written.get(tensor)
            if known is None and tensor in stored.inputs:
                known = inputs.setdefault(tensor, end)
            if known is None or (known.shape, known.storage) != (end.shape, end.storage):
                faults.append(Problem("not written in this form before", f"tensor '{tensor}'"))
        for tensor, end in part.outputs.items():
            if tensor in written:
                faults.append(Problem("written twice", f"tensor '{tensor}'"))
            written[tensor] = end
    faults += [
        Problem("no part uses it", f"tensor '{tensor}'")
        for names, known in ((stored.inputs, inputs), (stored.outputs, written))
        for tensor in names
        if tensor not in known
    ]
    if faults:
        raise damaged("the parts do not fit together", faults, f"graph '{name}'")
    return Interface(
        name,
        {tensor: inputs[tensor] for tensor in stored.inputs},
        {tensor: written[tensor] for tensor in stored.outputs},
    )


def damaged(message: str, faults: Iterable[Problem] = (), where: str = "image") -> ContainerError:
    """Return the error of an image whose content is wrong."""
    return ContainerError(message, code="CONTAINER_INVALID", where=where, problems=faults)
