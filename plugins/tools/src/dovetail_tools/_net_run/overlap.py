"""Limits of the inferences of a graph that overlap."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.runtime.config_file import OverlapConfig

# Without limits of the config, buffers of overlapping inferences take about this much at most.
_BUFFER_BYTES = 2**28
_USEFUL = 2  # executions: one runs and one waits, so that the backend is never idle


@dataclass(frozen=True, slots=True)
class OverlapLimits:
    """Limits of inferences that overlap.

    Attributes:
        executions: Maximum number of executions in the backend's queue.
        input_sets: Maximum number of input sets that are read before their executions are queued.
    """

    executions: int
    input_sets: int

    @classmethod
    def of(cls, config: OverlapConfig, queue_depth: int, nbytes: int) -> OverlapLimits:
        """Return the limits of a graph.

        Args:
            config: Limits of the config; those that it leaves open are the queue's depth, or less
                if the buffers would be large.
            queue_depth: Depth of the backend's queue.
            nbytes: Size of the buffers of one inference in bytes.
        """
        fitting = _BUFFER_BYTES // max(1, 2 * nbytes)
        executions = config.execute_enqueue_tasks_limit
        if executions is None:
            executions = max(_USEFUL, fitting)
        input_sets = config.input_tensors_creation_tasks_limit
        if input_sets is None:
            input_sets = max(1, min(queue_depth, fitting))
        return cls(min(queue_depth, executions), input_sets)

    def while_probing(self) -> OverlapLimits:
        """Return the limits until it is known whether overlap pays."""
        return OverlapLimits(min(_USEFUL, self.executions), 1)
