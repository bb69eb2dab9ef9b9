"""Launches: steps that run a function of a program over a range of work items."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dovetail.errors import BackendError
from dovetail.runtime.plan import Bound, Buffers, KernelCall, Step, Value
from dovetail_gpu.computing import Computing, current
from dovetail_gpu.driver import Device, Reported, opencl, translated
from dovetail_gpu.layouts import element_in
from dovetail_gpu.programs import Source

# A value, which becomes a buffer and the position of its first element; an integer of 32 bits; a
# number in float32.
Argument = Value | int | float
Size = tuple[int, ...]

GROUP = 64  # work items of a group, where these do not work together


def launch(
    call: KernelCall,
    source: Source,
    function: str,
    arguments: Sequence[Argument],
    size: Size,
    group: Size | None = None,
    *,
    in_place: Sequence[tuple[int, int]] = (),
) -> Step:
    """Return the step of a call that runs one function.

    Args:
        call: All values among the arguments are declared as its reads, writes and scratchpads.
        source: The program.
        function: Name of its function, whose parameters are those of the arguments: two for each
            value, `TENSOR_IN` or `TENSOR_OUT` of the prelude.
        arguments: The arguments.
        size: Number of work items along each axis; rounded up to whole groups.
        group: Number of work items of a group along each axis; None for the driver's choice.
        in_place: As in `KernelCall.step`.
    """
    return call.step(Launch(source, function, arguments, size, group).bound, in_place=in_place)


def launch_all(
    call: KernelCall, launches: Sequence[Launch], *, in_place: Sequence[tuple[int, int]] = ()
) -> Step:
    """Return the step of a call that runs several functions one after the other."""

    def bind(buffers: Buffers) -> Bound:
        calls = [made.bound(buffers) for made in launches]

        def run() -> None:
            for each in calls:
                each()

        return run

    return call.step(bind, in_place=in_place)


class Launch:
    """A function of a program with its arguments; see `launch`.

    Raises:
        BackendError: The driver rejects the program, or the function has other parameters.
    """

    def __init__(
        self,
        source: Source,
        function: str,
        arguments: Sequence[Argument],
        size: Size,
        group: Size | None = None,
    ) -> None:
        self._engine = current().engine
        self._source, self._function = source, function
        # compiled now; further bindings, whose arguments differ, have kernels of their own
        self._kernel = self._engine.programs.kernel(source, function)
        count = sum(2 if isinstance(argument, Value) else 1 for argument in arguments)
        if count != self._kernel.num_args:
            raise BackendError(
                f"the OpenCL function '{function}' has {self._kernel.num_args} parameters, and the "
                f"launch passes {count}",
                hint="pass an argument for each parameter in order; a value is that of a TENSOR_IN "
                "or TENSOR_OUT, two parameters",
            )
        self._arguments = tuple(arguments)
        self._size = _rounded(size, group)
        self._group = group
        self._is_empty = 0 in self._size

    def bound(self, buffers: Buffers) -> Bound:
        """Return the call that begins it with the buffers of a plan."""
        return self.with_buffers(buffers.buffer)

    def with_buffers(self, buffer: Callable[[Value], Any]) -> Bound:
        """Return the call that begins it.

        Args:
            buffer: Returns the block of a value and the offset in bytes.
        """
        given: list[Any] = []
        for argument in self._arguments:
            if isinstance(argument, Value):
                block, offset = buffer(argument)
                given += (block.buffer, np.int64(offset // element_in(argument).nbytes))
            elif isinstance(argument, float):
                given.append(np.float32(argument))
            else:
                given.append(np.int32(argument))
        if self._is_empty:
            return _nothing
        kernel, self._kernel = self._kernel, None
        if kernel is None:
            kernel = self._engine.programs.kernel(self._source, self._function)
        with Reported(self._engine.device, f"set the arguments of '{self._function}'"):
            kernel.set_args(*given)
        computing, device = current(), self._engine.device
        # the buffers, too: a kernel does not keep those that share the application's memory
        return functools.partial(_run, computing, device, kernel, self._size, self._group, given)


def _run(
    computing: Computing,
    device: Device,
    kernel: Any,
    size: Size,
    group: Size | None,
    buffers: list[Any],
) -> None:
    try:
        computing.enqueue(kernel, size, group)
        computing.keep(buffers)
    except opencl().Error as error:
        raise translated(device, "run the graph", error) from error


def spread(neighbors: int) -> tuple[int, int]:
    """Return the work items of a group along two axes of a range.

    Args:
        neighbors: Items along axis 0, which read neighboring elements. Many small cores read them
            in one access; on a processor each item is a group.
    """
    if current().engine.device.is_cpu:
        return 1, 1
    across = min(GROUP, 1 << max(0, neighbors - 1).bit_length())
    return across, GROUP // across


def _nothing() -> None:
    """Do nothing: there are no elements."""


def _rounded(size: Size, group: Size | None) -> Size:
    if group is None:
        return size
    return tuple(-(-n // g) * g for n, g in zip(size, group, strict=True))
