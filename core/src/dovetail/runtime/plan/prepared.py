"""Prepared graphs of an engine: plans that run in its contexts and are stored as data."""

from __future__ import annotations

import contextvars
from collections import ChainMap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast

import msgspec
import numpy as np

from dovetail.ir import Array, Graph, Tensor
from dovetail.runtime.contract import Binding, Done, Fingerprint, Image, RunControl
from dovetail.runtime.interface import Interface
from dovetail.runtime.measurements import Counter
from dovetail.runtime.plan.arena import Arena
from dovetail.runtime.plan.builder import Plan
from dovetail.runtime.plan.engine import CountStep, Engine
from dovetail.runtime.plan.excerpts import hashes_of
from dovetail.runtime.plan.executor import PlanPrepared
from dovetail.runtime.plan.images import Blobs, PlanData, PlanWriter, made_again
from dovetail.runtime.plan.overlap import OverlappedRuns
from dovetail.runtime.plan.recipes import RecipeError
from dovetail.runtime.plan.remaking import Remaker
from dovetail.runtime.plan.restoring import PlanReader
from dovetail.runtime.plan.sections import apply_forms, section_of, tensors_of, typed_section
from dovetail.runtime.plan.values import Step

# Keys of a recorded plan's settings.
THREADS = "threads"
OWN = "own"  # the backend's

# Number of elements in NumPy's buffers, which it fills where the rows of operands are short. It
# allocates them at every call: at its default of 8192 they cost more than they save.
_BUFFER = 1024


class EnginePrepared(PlanPrepared):
    """A plan of kernels.

    Args:
        plan: The plan.
        arena: The positions of its values.
        remaker: Makes its steps again; None if it is not updated.
        computing: Entered around each run.
        interface: Inputs and outputs of its graph.
        fingerprint: Returns what it depends on.
        threads: Number of threads that compute it.
        engine: Its engine.
        count: Counts quantities of its steps; None for those of all backends.
        shares: Whether its tensors share memory.
        recorded: Returns what an image keeps besides the plan; see `PlanBackend.recorded`.
        origin: The plan in the image that it was restored from, and the image's blobs, for
            sections; None if it was not restored, or has no updateable tensors.
    """

    def __init__(
        self,
        plan: Plan,
        arena: Arena,
        remaker: Remaker | None,
        computing: AbstractContextManager[None],
        interface: Interface,
        fingerprint: Callable[[], Fingerprint],
        *,
        threads: int,
        engine: Engine,
        count: CountStep | None = None,
        shares: bool = True,
        recorded: Callable[[], dict[str, Any]] = dict,
        origin: tuple[PlanData, Mapping[str, Array]] | None = None,
    ) -> None:
        self._origin = origin
        self._fingerprint = fingerprint
        self._count = count
        self._recorded = recorded
        self._computing = computing
        self._engine = engine
        lane = engine.lane
        self._overlapped = None if lane is None else OverlappedRuns(lambda: self._lane(lane))
        self.interface = interface
        self.threads = threads
        # NumPy's settings belong to the context: entering it is faster than setting them each run
        self._settings = contextvars.copy_context()
        self._settings.run(_set_numpy)
        super().__init__(plan, shares=shares, arena=arena, remaker=remaker)

    def run(
        self, inputs: Mapping[str, Binding], outputs: Mapping[str, Binding], control: RunControl
    ) -> None:
        """Execute the plan once; infinities and NaN are results and raise no warnings."""
        with self._computing:
            if self._engine.begin is not None:
                self._engine.begin(control)
            self._settings.run(PlanPrepared.run, self, inputs, outputs, control)

    def rehearse(self) -> None:
        """Run once on zeros, and keep nothing of it."""
        inputs, outputs = (
            {
                name: np.zeros(end.tensor.shape, end.tensor.dtype.storage)
                for name, end in ends.items()
            }
            for ends in (self.interface.inputs, self.interface.outputs)
        )
        self.run(inputs, outputs, RunControl())
        self.unbind()

    def submit(
        self,
        inputs: Mapping[str, Binding],
        outputs: Mapping[str, Binding],
        control: RunControl,
        done: Done,
    ) -> None:
        """Begin an execution; see `Prepared.submit`."""
        if self._overlapped is None:
            super().submit(inputs, outputs, control, done)
        else:
            self._overlapped.submit(inputs, outputs, control, done)

    def unbind(self) -> None:
        """Forget the buffers of the application; see `Prepared.unbind`."""
        super().unbind()
        if self._overlapped is not None:
            self._overlapped.unbind()

    def close(self) -> None:
        """End its threads; see `Prepared.close`."""
        if self._overlapped is not None:
            self._overlapped.close()

    def _lane(self, lane: Callable[[Any], AbstractContextManager[None]]) -> EnginePrepared:
        """Return the same plan with buffers and a context of its own."""
        computing = lane(self._computing)
        with computing:
            return EnginePrepared(
                self.plan,
                self.arena,
                None,
                computing,
                self.interface,
                self._fingerprint,
                threads=self.threads,
                engine=self._engine,
                count=self._count,
            )

    def update(self, tensors: Sequence[Tensor]) -> None:
        """Use other data or encodings of tensors; see `Prepared.update`."""
        with self._changing():
            super().update(tensors)
            if self.remaker is not None and self.has_new_encodings:
                graph = self.remaker.load().graph  # inputs and outputs may have others, too
                self.interface = Interface.of(graph.name, graph.inputs, graph.outputs)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Enter the context in which steps are made again, for all runs that follow."""
        with self._computing:
            yield
        if self._overlapped is not None:
            self._overlapped.forget()

    def settle(self) -> float | None:
        """Wait for the calls made so far; see `PlanPrepared.settle`."""
        return self._engine.settle()

    def counters(self, step: Step) -> tuple[Counter, ...]:
        """Return quantities of a step that has run, for profiles."""
        if self._count is None:
            return super().counters(step)
        return self._count(step, lambda: self._written(step))

    def section(self, names: Collection[str]) -> Image:
        """Return updateable tensors; see `Prepared.section`."""
        blobs = Blobs()
        with self._computing:
            plan = None
            if self.has_new_encodings:
                plan = self.recorded(PlanWriter(self._engine.record_layout, blobs))
            known = set() if plan is None else self._base_blobs()
            data = msgspec.to_builtins(section_of(self, names, blobs, plan))
        plain = msgspec.json.decode(msgspec.json.encode(data))
        own = {key: array for key, array in blobs.found.items() if key not in known}
        return Image(self._fingerprint(), {self.interface.graph: plain}, own)

    def _base_blobs(self) -> set[str]:
        """Return the keys of the blobs that an image of the base has, without those of slots."""
        if self._origin is not None:
            return set(self._origin[1])
        if self.base is None:
            return set()
        blobs = Blobs()
        writer = PlanWriter(self._engine.record_layout, blobs)
        plan = writer.record(*self.base, self.interface, "", {})
        excerpt = self._excerpt(self.base[0])
        # updates have changed the bytes of slots in place
        found = set(blobs.found) - {slot.blob for slot in plan.slots}
        return found if excerpt is None else found | hashes_of(excerpt)

    def apply(self, section: Image) -> None:
        """Use the updateable tensors of a section; see `Prepared.apply`."""
        section.require(self._fingerprint())
        name = self.interface.graph
        if name not in section.graphs:
            raise RecipeError(f"the section has no graph '{name}'")
        where = f"section of graph '{name}'"
        with self._changing():
            found = typed_section(self, section.graphs[name], where)
            if found.plan is None and not self.has_new_encodings:
                apply_forms(self, found, section.blobs, where)
                return
            if self._origin is None:
                tensors = tensors_of(found, section.blobs, where)
                if self.remaker is not None:
                    self.remaker.require_updates(tensors, where)
                self.update(tensors)
                return
            base, blobs = self._origin
            if found.plan is None:
                self._restore(base, blobs, where)
                self.has_new_encodings = False
                apply_forms(self, found, section.blobs, where)
            else:
                both = ChainMap(cast("Any", section.blobs), cast("Any", blobs))
                self._restore(found.plan, both, where)
                self.has_new_encodings = True

    def _restore(self, plan: object, blobs: Mapping[str, Array], where: str) -> None:
        """Use another plan of the graph; nothing changes if an error is raised.

        Args:
            plan: The plan as data.
            blobs: Its blobs.
            where: Where it comes from, for errors.
        """
        if self.remaker is None:
            raise AssertionError("a restored graph has a remaker")
        remaker = self.remaker.fresh()
        options, weights = remaker.options, remaker.weights
        reader = PlanReader(plan, blobs, self._engine.builders, weights, options, where)
        name = self.interface.graph
        restored, arena, interface = reader.plan(name, self._engine.reorder, remaker)
        with reader.faults():
            self._start(restored, arena)
        self.remaker, self.interface = remaker, interface

    def recorded(self, writer: PlanWriter) -> PlanData:
        """Return its plan as data."""
        settings: dict[str, Any] = {THREADS: self.threads}
        if own := self._recorded():
            settings[OWN] = own
        remaker = self.remaker
        model, updateable = ("", []) if remaker is None else (remaker.model, remaker.original)
        return writer.record(
            self.plan,
            self.arena,
            self.interface,
            model,
            settings,
            updateable,
            self._excerpt(self.plan),
        )

    def _excerpt(self, plan: Plan) -> Graph | None:
        """Return the nodes of a plan's steps without recipes; None if all have one."""
        names = made_again(plan)
        if not names or self.remaker is None:
            return None
        return self.remaker.excerpt(names)


def _set_numpy() -> None:
    np.seterr(all="ignore")
    np.setbufsize(_BUFFER)
