"""Contexts of `auto`: those of the candidates that run graphs, and the choice for each graph."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec.structs import replace

from dovetail.ops import CheckedGraph
from dovetail.runtime.choice.choosing import Choosing
from dovetail.runtime.choice.plans import Plan
from dovetail.runtime.contract import (
    Fingerprint,
    Image,
    Prepared,
    PrepareRequest,
    Restored,
    RunControl,
)
from dovetail.runtime.names import HETERO
from dovetail.runtime.placement.context import HeteroContext
from dovetail.runtime.placement.images import damaged
from dovetail.runtime.placement.members import Member, close_all
from dovetail.runtime.placement.prepared import HeteroPrepared
from dovetail.runtime.placement.report import Choice

if TYPE_CHECKING:  # it opens contexts
    from dovetail.runtime.choice.backend import AutoBackend

# Trials of two threads would disturb each other.
_CHOOSING = threading.Lock()
_WAIT_S = 0.05
_FACTS = "candidates"  # the blob of an image with the fingerprint of those that it is for


class AutoContext(HeteroContext):
    """Contexts of candidates, opened when a graph is prepared on them.

    Those of candidates that run no graph are closed after each choice. Arguments are as for
    `HeteroContext`.
    """

    _backend: AutoBackend

    def open_members(self) -> None:
        """Open none: a candidate that fails is skipped when a graph is prepared."""
        self._used: set[str] = set()  # names of the candidates that run graphs

    def prepare(self, graph: CheckedGraph, request: PrepareRequest) -> HeteroPrepared:
        """Choose a plan of a graph and prepare it; see `BackendContext.prepare`.

        Raises:
            ConfigError: The graph's config names other backends than the candidates, or pins nodes
                that the graph does not have.
            BackendError: CHOICE_CHECK_FAILED: the rules exclude all candidates, or
                GRAPH_ERROR_FINALIZE_FAILED: all others failed; every reason is listed. Or the
                preparation was ended.
        """
        with _alone(request.control):
            try:
                chosen = Choosing(self, self._backend, graph, request).result()
                self._used |= {part.backend for part in chosen.parts}
            finally:
                self._close_unused()
        return chosen

    def image(self, graphs: Mapping[str, Prepared]) -> Image:
        """Return the images of the candidates that run the graphs in one.

        Raises:
            BackendError: A candidate lacks the capability `caching`.
        """
        found = super().image(graphs)
        facts = np.frombuffer(msgspec.json.encode(found.fingerprint, order="sorted"), np.uint8)
        own = self._backend.fingerprint(self._device)
        return replace(found, fingerprint=own, blobs={**found.blobs, _FACTS: facts})

    def restore(
        self,
        image: Image,
        graph: Callable[[str], CheckedGraph] | None,
        request: Callable[[str], PrepareRequest],
    ) -> Mapping[str, Restored]:
        """Restore graphs on the candidates that were chosen when the image was created.

        Raises:
            BackendError: A candidate lacks the capability `caching`.
            ContainerError: The image is damaged, or of backends that are not candidates here.
        """
        image.require(self._backend.fingerprint(self._device))
        with _CHOOSING:
            try:
                found = super().restore(_joined(image), graph, request)
                for restored in found.values():
                    self._note_restored(restored.prepared)
            finally:
                self._close_unused()
        return found

    def _note_restored(self, prepared: Prepared) -> None:
        if isinstance(prepared, HeteroPrepared):  # all are
            self._used |= {part.backend for part in prepared.parts}
            names = [share.backend for share in prepared.placement.shares]
            name = names[0] if len(names) == 1 else f"{HETERO}:{','.join(names)}"
            choice = Choice(name, "chosen when the image was created", ())
            prepared.placement = msgspec.structs.replace(prepared.placement, choice=choice)

    def prepare_plan(
        self, graph: CheckedGraph, plan: Plan, request: PrepareRequest
    ) -> HeteroPrepared:
        """Prepare a graph as a plan says."""
        return self._prepare_parts(graph, plan.members, plan.parts, plan.report, request)

    def _image_members(self, used: Collection[str]) -> tuple[Member, ...]:
        return tuple(member for member in self._backend.members if member.name in used)

    def _close_unused(self) -> None:
        unused = [name for name in self._contexts if name not in self._used]
        close_all((name, self._contexts.pop(name)) for name in unused)


def _joined(image: Image) -> Image:
    """Return an image with the facts of the candidates that it is for.

    Raises:
        ContainerError: It has none.
    """
    blobs = dict(image.blobs)
    facts = blobs.pop(_FACTS, None)
    try:
        data = b"" if facts is None else facts.tobytes()
        return replace(image, fingerprint=msgspec.json.decode(data, type=Fingerprint), blobs=blobs)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise damaged(f"the facts of the candidates cannot be read: {error}") from error


@contextmanager
def _alone(control: RunControl) -> Iterator[None]:
    """Enter when no other thread chooses.

    Raises:
        BackendError: The control ended the preparation before.
    """
    while not _CHOOSING.acquire(timeout=_WAIT_S):
        control.check()
    try:
        yield
    finally:
        _CHOOSING.release()
