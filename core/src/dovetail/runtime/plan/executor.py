"""The executor: binds a plan's steps once and runs them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from dovetail.errors import BackendError, DovetailError
from dovetail.ir import Array, Tensor
from dovetail.runtime.contract import Image, RunControl, Watch
from dovetail.runtime.plan.arena import Arena, ArenaBuffers, plan_arena
from dovetail.runtime.plan.builder import Plan, dense_copy
from dovetail.runtime.plan.kernels import nothing
from dovetail.runtime.plan.values import Bound, Step, Storage, Value


class PlanPrepared:
    """A `Prepared` over a plan: backends that make steps get running and watching from here.

    The application's last buffers stay referenced until others come: comparing them by identity is
    what makes a repeated run on the same buffers free of any binding.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.arena: Arena = plan_arena(plan.steps)
        self._buffers = ArenaBuffers(self.arena)
        self._bound: list[Bound | None] = [None] * len(plan.steps)
        self._touching = _touching(plan.steps)
        self._run_list: tuple[tuple[int, Bound], ...] = ()
        for i, step in enumerate(plan.steps):
            if not any(_is_application(v) for v in (*step.reads, *step.writes)):
                self._bound[i] = step.bind(self._buffers)

    @property
    def steps(self) -> Sequence[Step]:
        """The steps, in order."""
        return self._plan.steps

    def run(
        self, inputs: Mapping[str, Array], outputs: Mapping[str, Array], control: RunControl
    ) -> None:
        """Executes the plan once; see `Prepared.run`.

        Raises:
            BackendError: A step failed; names its nodes.
        """
        self._rebind(inputs, outputs)
        at = 0
        try:
            if control.watch is not None:
                for at, step in enumerate(self._plan.steps):
                    control.check()
                    self._watched(step, self._bound[at] or nothing, control.watch)
            else:
                check = control.check
                for at, call in self._run_list:  # noqa: B007 - errors say at which step
                    check()
                    call()
        except DovetailError as error:
            if error.code == BackendError.default_code:  # a kernel's, not the control's
                error.where = error.where or self._where(at)
            raise
        except Exception as error:
            raise BackendError(
                f"a kernel failed: {type(error).__name__}: {error}", where=self._where(at)
            ) from error

    def image(self) -> Image:
        """Refuses: only a backend knows how its steps are written down.

        Raises:
            BackendError: Always.
        """
        raise BackendError(
            "this backend does not make context binaries", code="CONTEXT_ERROR_UNSUPPORTED_FEATURE"
        )

    def update(self, tensors: Sequence[Tensor]) -> None:
        """Refuses: a backend that can update tensors says how.

        Raises:
            BackendError: Always.
        """
        raise BackendError(
            "this backend does not update tensors after finalize",
            code="TENSOR_ERROR_UNSUPPORTED_FEATURE",
        )

    def _rebind(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """Binds the steps that touch buffers which are not those of the last run."""
        stale: set[int] = set()
        bound = self._buffers.application
        for values, arrays in ((self._plan.inputs, inputs), (self._plan.outputs, outputs)):
            for name, value in values.items():
                if bound.get(value) is not arrays[name]:
                    bound[value] = arrays[name]
                    stale.update(self._touching.get(value, ()))
        for i in stale:
            self._bound[i] = self._plan.steps[i].bind(self._buffers)
        if stale or not self._run_list:
            self._run_list = tuple(
                (i, call)
                for i, call in enumerate(self._bound)
                if call is not None and call is not nothing
            )

    def _where(self, at: int) -> str:
        return f"node {', '.join(self._plan.steps[at].nodes) or 'a reorder'}"

    def _watched(self, step: Step, call: Bound, watch: Watch) -> None:
        start = time.perf_counter_ns()
        call()
        microseconds = (time.perf_counter_ns() - start) / 1e3
        if step.nodes:
            outputs = {v.name: self._dense(v) for v in step.writes}
            watch.step_finished(step.nodes, microseconds, outputs)

    def _dense(self, value: Value) -> Array:
        if value.layout is None or self._plan.reorder is None:
            return self._buffers.array(value)
        copy = dense_copy(value)
        self._plan.reorder(value, copy).bind(self._buffers)()
        self._buffers.forget_others()
        return self._buffers.array(copy)


def _is_application(value: Value) -> bool:
    return value.root.storage in (Storage.INPUT, Storage.OUTPUT)


def _touching(steps: Sequence[Step]) -> dict[Value, tuple[int, ...]]:
    """The steps that touch each of the application's values."""
    found: dict[Value, list[int]] = {}
    for i, step in enumerate(steps):
        for value in {v.root for v in (*step.reads, *step.writes) if _is_application(v)}:
            found.setdefault(value, []).append(i)
    return {value: tuple(indices) for value, indices in found.items()}
