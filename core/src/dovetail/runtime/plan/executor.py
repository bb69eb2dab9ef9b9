"""The executor, which binds a plan's steps and runs them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from dovetail.errors import BackendError, DovetailError
from dovetail.ir import Array, Tensor
from dovetail.runtime.base import PreparedBase
from dovetail.runtime.contract import Binding, RunControl
from dovetail.runtime.measurements import Counter
from dovetail.runtime.plan.arena import Arena, ArenaBuffers, plan_arena
from dovetail.runtime.plan.binds import no_op
from dovetail.runtime.plan.builder import Plan, dense_copy
from dovetail.runtime.plan.images import made_again
from dovetail.runtime.plan.recipes import Recipe
from dovetail.runtime.plan.remaking import Remaker
from dovetail.runtime.plan.slots import Slot
from dovetail.runtime.plan.values import Bound, Step, Value

# Errors of kernels; not KeyboardInterrupt, which comes from the user.
_ANYTHING = (Exception, SystemExit)


class PlanPrepared(PreparedBase):
    """A `Prepared` that runs a plan, for backends that create steps.

    The application's last buffers stay referenced until others are passed: they are compared by
    identity, so that repeated runs on the same buffers need no binding.

    Args:
        plan: The plan.
        shares: Whether values with disjoint lifetimes share memory.
        arena: The positions of the values; by default they are planned.
        remaker: Makes steps again for updates; None if it has no updateable tensors.

    Attributes:
        plan: The plan.
        arena: The positions of its values.
        remaker: As the argument.
        has_new_encodings: Whether an update of encodings has built the plan again.
        base: The plan before, and its arena; None if there was no such update.
    """

    has_new_encodings = False
    base: tuple[Plan, Arena] | None = None

    def __init__(
        self,
        plan: Plan,
        *,
        shares: bool = True,
        arena: Arena | None = None,
        remaker: Remaker | None = None,
    ) -> None:
        self.remaker = remaker
        self._shares = shares
        self._start(plan, plan_arena(plan.steps, shares=shares) if arena is None else arena)

    def _start(self, plan: Plan, arena: Arena) -> None:
        """Bind the steps of a plan; nothing changes if an error is raised."""
        buffers = ArenaBuffers(arena)
        bound: list[Bound | None] = [None] * len(plan.steps)
        for i, step in enumerate(plan.steps):
            if not any(v.is_application for v in (*step.reads, *step.writes)):
                bound[i] = step.bind(buffers)
        self.plan, self.arena, self._buffers, self._bound = plan, arena, buffers, bound
        self._touching = _touching(plan.steps)
        self._run_list: tuple[tuple[int, Bound], ...] = ()

    @property
    def memory_bytes(self) -> int:
        """Memory of its arena and of its constants."""
        used = (v.root for step in self.plan.steps for v in (*step.reads, *step.scratch))
        # values of one form or slot share its bytes
        constants = {v.key or v.slot or v: v.nbytes for v in used if v.array is not None}
        return sum(self.arena.sizes.values()) + sum(constants.values())

    @property
    def steps(self) -> Sequence[Step]:
        """The steps, in order."""
        return self.plan.steps

    @property
    def io_buffers(self) -> Mapping[str, int]:
        """The buffers in other memory spaces; see `Prepared.io_buffers`."""
        found: dict[str, int] = {}
        for step in self.plan.steps:
            if not step.nodes:
                for source, target in zip(step.reads, step.writes, strict=True):
                    for own, other in ((source.root, target), (target.root, source)):
                        if own.is_application and own.space is not other.root.space:
                            found[own.name] = other.nbytes
        return found

    def run(
        self, inputs: Mapping[str, Binding], outputs: Mapping[str, Binding], control: RunControl
    ) -> None:
        """Execute the plan once; see `Prepared.run`.

        Raises:
            BackendError: A step failed; the error names its nodes.
        """
        self._rebind(inputs, outputs)
        if control.watch is not None or (control.record is not None and control.record.has_nodes):
            self._run_reported(control)
            return
        at = 0
        try:
            for at, call in self._run_list:  # noqa: B007 - errors say at which step
                if control.limited:
                    control.check()
                call()
        except _ANYTHING as error:
            raise self._located(error, at) from _cause(error)

    def update(self, tensors: Sequence[Tensor]) -> None:
        """Compute the slots of updateable tensors again; see `Prepared.update`.

        If encodings change, the plan is built again: which kernels run, and what they share,
        depends on them. Else steps with a recipe read the slots alone, and others are made again.
        Nothing changes if an error is raised.

        Raises:
            BackendError: It was restored without its model, or its backend has no updates.
        """
        if self.remaker is None:
            super().update(tensors)
            return
        names = {tensor.name for tensor in tensors}
        self.remaker.load()
        with self.remaker.assigning(tensors):
            if self.remaker.has_new_encodings(tensors):
                self._rebuild(self.remaker)
                return
            steps = self._made_again(names, find_makers=True)
            slots = [slot for slot in self.plan.slots if slot.reads(names)]
            self._use([(slot, slot.computed()) for slot in slots], steps)

    def use_forms(
        self, tensors: Sequence[Tensor], forms: Sequence[tuple[Slot, Array]], where: str
    ) -> None:
        """Use forms of updateable tensors that were computed before.

        Nothing changes if an error is raised.

        Args:
            tensors: The tensors, for steps that depend on more than the forms.
            forms: Slots and their new data, of the same size.
            where: Where they come from, for errors.

        Raises:
            BackendError: Such a step exists, but the model is not available.
            ContainerError: The tensors do not match the graph's.
        """
        remaker = self.remaker
        # of a restored graph, whose model is not loaded, a section has new encodings with a plan
        has_new = remaker is not None and remaker.is_loaded and remaker.has_new_encodings(tensors)
        names = {tensor.name for tensor in tensors} | {n for s, _ in forms for n in s.inputs}
        if remaker is None or not (has_new or remaker.depends(made_again(self.plan), names)):
            self._use(forms, {})
            return
        remaker.require_updates(tensors, where)
        with remaker.assigning(tensors):
            if remaker.has_new_encodings(tensors):
                self._rebuild(remaker)
            else:
                self._use(forms, self._made_again(names, find_makers=False))

    def _rebuild(self, remaker: Remaker) -> None:
        """Build the plan again from the graph as it is now."""
        plan = remaker.rebuilt()
        if self.base is None:
            self.base = self.plan, self.arena
        self._start(plan, plan_arena(plan.steps, shares=self._shares))
        remaker.follow(plan)
        self.has_new_encodings = True

    def _made_again(self, names: set[str], *, find_makers: bool) -> dict[int, Step]:
        """Return the new steps of those that depend on tensors.

        Args:
            names: Names of the tensors.
            find_makers: Whether slots of all these tensors have makers afterwards.
        """
        remaker = self.remaker
        found: dict[int, Step] = {}
        if remaker is None:
            return found
        for i, (step, group) in enumerate(zip(self.plan.steps, self.plan.groups, strict=True)):
            if group is None:
                continue
            slots = [v.slot for v in step.reads if v.slot is not None and v.slot.reads(names)]
            has_recipe = isinstance(step.bind, Recipe)
            if has_recipe and (not find_makers or all(slot.has_maker for slot in slots)):
                continue
            if slots or remaker.depends(group.nodes, names):
                made = remaker.made(step, group)
                if not has_recipe:
                    found[i] = made
        return found

    def _use(self, forms: Sequence[tuple[Slot, Array]], steps: Mapping[int, Step]) -> None:
        """Replace the data of slots, and steps; nothing changes if an error is raised."""
        for slot, data in forms:
            slot.require_size(data)
        # the new steps are bound to the new data, which may fail
        before = [(slot, slot.to_host().copy()) for slot, _ in forms] if steps else []
        try:
            for slot, data in forms:
                slot.replace(data)
            bound = {
                i: step.bind(self._buffers)
                for i, step in steps.items()
                if not any(v.is_application for v in (*step.reads, *step.writes))
            }
        except BaseException:
            for slot, data in before:
                slot.replace(data)
            raise
        if steps:
            every = tuple(steps.get(i, step) for i, step in enumerate(self.plan.steps))
            self.plan = replace(self.plan, steps=every)
            for i, call in bound.items():
                self._bound[i] = call
            self.unbind()

    def unbind(self) -> None:
        """Forget the buffers of the application; the next run binds its own."""
        self._buffers.application.clear()
        self._run_list = ()
        for indices in self._touching.values():
            for at in indices:
                self._bound[at] = None

    def _rebind(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """Bind the steps that use other buffers than in the last run."""
        stale: set[int] = set()
        bound, at = self._buffers.application, 0
        try:
            for values, arrays in ((self.plan.inputs, inputs), (self.plan.outputs, outputs)):
                for name, value in values.items():
                    if bound.get(value) is not arrays[name]:
                        bound[value] = arrays[name]
                        stale.update(self._touching.get(value, ()))
            changed = not self._run_list
            for at in stale:
                call = self.plan.steps[at].bind(self._buffers)
                changed = changed or call is not self._bound[at]
                self._bound[at] = call
            if changed:
                self._run_list = tuple(
                    (i, call)
                    for i, call in enumerate(self._bound)
                    if call is not None and call is not no_op
                )
        except BaseException as error:  # including the user's interrupt
            bound.clear()  # the bindings are inconsistent; the next run binds everything again
            self._run_list = ()
            if isinstance(error, _ANYTHING):
                raise self._located(error, at) from _cause(error)
            raise

    def _run_reported(self, control: RunControl) -> None:
        for at, step in enumerate(self.plan.steps):
            control.check()
            start = time.perf_counter_ns()
            try:
                (self._bound[at] or no_op)()
            except _ANYTHING as error:
                raise self._located(error, at) from _cause(error)
            on_device = self.settle()
            elapsed = (time.perf_counter_ns() - start) / 1e3
            microseconds = elapsed if on_device is None else on_device
            if step.nodes:
                control.step_finished(
                    step.nodes,
                    start / 1e3,
                    microseconds,
                    partial(self._written, step),
                    self.counters(step),
                )

    def settle(self) -> float | None:
        """Wait for the calls made so far, in watched runs of an engine whose calls only begin work.

        Returns:
            The microseconds that they took on the device; None if that is the time of the call.
        """
        return None

    def counters(self, step: Step) -> tuple[Counter, ...]:
        """Return quantities of a step that has run, for profiles."""
        return step.counters

    def _located(self, error: BaseException, at: int) -> DovetailError:
        """Return the error of a step, which names its nodes; keep errors of the control."""
        nodes = ", ".join(self.plan.steps[at].nodes)
        where = f"node {nodes}" if nodes else "a reorder"
        if not isinstance(error, DovetailError):
            return BackendError(f"a kernel failed: {type(error).__name__}: {error}", where=where)
        if error.code == BackendError.default_code:
            error.where = error.where or where
        return error

    def _written(self, step: Step) -> dict[str, Array]:
        """Return the stored values of the tensors that a step has written."""
        return {v.name: self._dense(v) for v in step.writes}

    def _dense(self, value: Value) -> Array:
        if value.layout is None or self.plan.reorder is None:
            return self._buffers.array(value)
        copy = dense_copy(value)
        self.plan.reorder(value, copy).bind(self._buffers)()
        self._buffers.forget_others()
        return self._buffers.array(copy)


def _cause(error: BaseException) -> BaseException | None:
    """Return the cause for an error that replaces `error`; a DovetailError keeps its own cause."""
    return error.__cause__ if isinstance(error, DovetailError) else error


def _touching(steps: Sequence[Step]) -> dict[Value, tuple[int, ...]]:
    """Return the indices of the steps that use each of the application's values."""
    found: dict[Value, list[int]] = {}
    for i, step in enumerate(steps):
        for value in {v.root for v in (*step.reads, *step.writes) if v.is_application}:
            found.setdefault(value, []).append(i)
    return {value: tuple(indices) for value, indices in found.items()}
