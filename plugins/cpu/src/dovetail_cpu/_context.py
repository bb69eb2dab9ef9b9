"""Contexts of the backend `cpu`: graphs as images, and restored from them."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from dovetail.ops import CheckedGraph
from dovetail.runtime.base import ContextBase
from dovetail.runtime.contract import (
    Binding,
    Fingerprint,
    Image,
    Prepared,
    PrepareRequest,
    Restored,
    RunControl,
)
from dovetail.runtime.interface import Interface
from dovetail.runtime.measurements import EventType, EventUnit, ProfileEvent
from dovetail.runtime.plan import (
    Arena,
    Blobs,
    Plan,
    PlanData,
    PlanPrepared,
    PlanReader,
    PlanWriter,
    RecipeError,
    Remaker,
    apply_section,
    section_of,
)

if TYPE_CHECKING:  # the backend opens contexts
    from dovetail_cpu._backend import CpuBackend

# Number of elements in NumPy's buffers, which it fills where the rows of operands are short. It
# allocates them at every call: at its default of 8192 they cost more than they save.
_BUFFER = 1024
_ONE_THREAD = "one_thread"


class CpuContext(ContextBase):
    """Prepares graphs, and stores and restores them."""

    backend: CpuBackend

    def image(self, graphs: Mapping[str, Prepared]) -> Image:
        """Return prepared graphs as data; see `BackendContext.image`."""
        blobs = Blobs()
        plans = {}
        for name, prepared in graphs.items():
            if not isinstance(prepared, CpuPrepared):
                raise AssertionError(f"graph '{name}' is of another backend")
            writer = PlanWriter(self.backend.engine.record_layout, blobs)
            plan = prepared.recorded(writer)
            plans[name] = msgspec.json.decode(msgspec.json.encode(plan))  # of JSON types
        return Image(self.backend.fingerprint(self.device), plans, blobs.found)

    def restore(
        self,
        image: Image,
        graph: Callable[[str], CheckedGraph] | None,
        request: Callable[[str], PrepareRequest],
    ) -> Mapping[str, Restored]:
        """Return the graphs of an image; see `BackendContext.restore`.

        Steps of NumPy are made again, which needs the model; a profile has their number.
        """
        image.require(self.backend.fingerprint(self.device))
        return {
            name: self._restored(name, data, image, graph, request(name))
            for name, data in image.graphs.items()
        }

    def _restored(
        self,
        name: str,
        data: object,
        image: Image,
        graph: Callable[[str], CheckedGraph] | None,
        request: PrepareRequest,
    ) -> Restored:
        backend, engine = self.backend, self.backend.engine
        reader = PlanReader(
            data, image.blobs, engine.builders, self.weights, backend.options, f"graph '{name}'"
        )
        one_thread = reader.data.settings.get(_ONE_THREAD)
        if not isinstance(one_thread, bool):
            raise RecipeError("the number of threads is missing", where=f"graph '{name}'")
        remaker = Remaker(
            None if graph is None else lambda: graph(name),
            backend.kernels,
            self.weights,
            backend.options,
            engine.reorder,
        )
        with backend.computing(one_thread=one_thread) as computing:
            plan, arena, interface = reader.plan(name, engine.reorder, remaker)
            with reader.faults():  # it allocates the arena and binds steps
                prepared = CpuPrepared(
                    plan,
                    arena,
                    remaker,
                    computing,
                    interface,
                    lambda: backend.fingerprint(self.device),
                    one_thread=one_thread,
                )
        if request.record is not None:
            request.record(
                ProfileEvent(EventType.FINALIZE, "steps made again", remaker.count, EventUnit.COUNT)
            )
        return Restored(interface, prepared)


class CpuPrepared(PlanPrepared):
    """A plan of kernels.

    Args:
        plan: The plan.
        arena: The positions of its values.
        remaker: Makes its steps again.
        computing: Entered around each run.
        interface: Inputs and outputs of its graph.
        fingerprint: Returns what it depends on.
        one_thread: Whether one thread computes it.
    """

    def __init__(
        self,
        plan: Plan,
        arena: Arena,
        remaker: Remaker,
        computing: AbstractContextManager[None],
        interface: Interface,
        fingerprint: Callable[[], Fingerprint],
        *,
        one_thread: bool,
    ) -> None:
        self._fingerprint = fingerprint
        self._computing = computing
        self.interface = interface
        self.one_thread = one_thread
        # NumPy's settings belong to the context: entering it is faster than setting them each run
        self._settings = contextvars.copy_context()
        self._settings.run(_set_numpy)
        super().__init__(plan, arena=arena, remaker=remaker)

    def run(
        self, inputs: Mapping[str, Binding], outputs: Mapping[str, Binding], control: RunControl
    ) -> None:
        """Execute the plan once; infinities and NaN are results and raise no warnings."""
        with self._computing:
            self._settings.run(PlanPrepared.run, self, inputs, outputs, control)

    def section(self, base: Prepared | None) -> Image:
        """Return its updateable tensors; see `Prepared.section`."""
        if base is not None and not isinstance(base, CpuPrepared):
            raise AssertionError("the base of a section is of another backend")
        blobs = Blobs()
        data = msgspec.to_builtins(section_of(self, base, blobs))
        plain = msgspec.json.decode(msgspec.json.encode(data))
        return Image(self._fingerprint(), {self.interface.graph: plain}, blobs.found)

    def apply(self, section: Image) -> None:
        """Use the updateable tensors of a section; see `Prepared.apply`."""
        section.require(self._fingerprint())
        name = self.interface.graph
        if name not in section.graphs:
            raise RecipeError(f"the section has no graph '{name}'")
        apply_section(self, section.graphs[name], section.blobs, f"section of graph '{name}'")

    def recorded(self, writer: PlanWriter) -> PlanData:
        """Return its plan as data."""
        settings = {_ONE_THREAD: self.one_thread}
        model = "" if self.remaker is None else self.remaker.model
        return writer.record(self.plan, self.arena, self.interface, model, settings)


def _set_numpy() -> None:
    np.seterr(all="ignore")
    np.setbufsize(_BUFFER)
