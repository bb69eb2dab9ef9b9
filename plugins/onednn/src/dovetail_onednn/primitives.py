"""Primitives: computations that are compiled once and executed on any addresses.

The caller provides the scratchpad of every primitive: if the library allocates it, oneDNN 3.2
crashes when a primitive created in one thread is executed in another.
"""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from ctypes import POINTER, c_char_p, c_int, c_void_p
from dataclasses import dataclass
from typing import Any

from dovetail.container import aligned_empty
from dovetail.errors import BackendError
from dovetail_onednn._api import (
    POST_OP_BASE,
    USER_SCRATCHPAD,
    Algorithm,
    Arg,
    BinaryAlgorithm,
    ExecArg,
    Query,
)
from dovetail_onednn._library import library
from dovetail_onednn.descriptors import Memory, MemoryDesc
from dovetail_onednn.errors import check, failure
from dovetail_onednn.fork import GENERATION
from dovetail_onednn.handles import Handle, Stream, engine, make
from dovetail_onednn.precision import math_mode
from dovetail_onednn.threads import (
    ACTIVE,
    TEAM,
    ReleaseGil,
    current_threads,
    fewer_threads,
    set_threads,
    threads,
)

# A longer call lets other Python threads run: a tenth of the interval after which a busy thread
# releases the interpreter. So many calls are timed.
_LONG_S = 0.5e-3
_TRIALS = 3


@dataclass(frozen=True, slots=True)
class Eltwise:
    """Post-op: a function of each element of the result."""

    algorithm: Algorithm
    alpha: float = 0.0
    beta: float = 0.0

    def __str__(self) -> str:
        if self == RELU:
            return "relu"
        return f"{self.algorithm.name.lower()}({self.alpha:g}, {self.beta:g})"


# The library's relu and clip replace NaN by a bound. Its hard swish, x * clip(alpha * x, 0, 1),
# keeps NaN, and is relu for this alpha: exact except for -inf, which becomes NaN, and for numbers
# below 3e-39. In place of relu it takes up to 12 percent of a convolution's time, and 17 of a
# depthwise one's; slopes of 0, which only convolutions and products support, take 0 to 5, and elu
# with alpha 0, which is exact for -inf too, 1 to 100.
RELU = Eltwise(Algorithm.HARDSWISH, 3.4028234663852886e38)


@dataclass(frozen=True, slots=True)
class Binary:
    """Post-op: an elementwise function of the result and another tensor.

    The library can also add to the previous content of the destination. Its depthwise and small
    convolutions then fall back to slow code on some processors if another post-op comes first. It
    was no faster, and needs both tensors to share their bytes.

    Attributes:
        algorithm: The function.
        other: The second operand; axes of size 1 broadcast.
    """

    algorithm: BinaryAlgorithm
    other: MemoryDesc

    def __str__(self) -> str:
        return self.algorithm.name.lower()


@dataclass(frozen=True, slots=True)
class Slopes:
    """Post-op: the result where it is positive, else the result times a slope.

    Attributes:
        other: The slopes, one for each channel or for all.
        is_zero: Whether they are the number 0 rather than an input of the call.
    """

    other: MemoryDesc
    is_zero: bool = False

    @property
    def mask(self) -> int:
        """Bit mask of the axes along which slopes differ."""
        return sum(1 << axis for axis, size in enumerate(self.other.dims) if size > 1)

    def __str__(self) -> str:
        return "relu" if self.is_zero else "prelu"


PostOp = Eltwise | Binary | Slopes
Addresses = dict[int, tuple[MemoryDesc, int]]  # descriptor and address by argument


class Attributes(Handle):
    """The attributes of a primitive: a scratchpad of the caller, and post-ops.

    Args:
        post_ops: Functions of the result.
        multiplies: Whether it sums products, whose factors the current precision may round.
    """

    __slots__ = ()

    def __init__(self, post_ops: Sequence[PostOp] = (), *, multiplies: bool = False) -> None:
        doing = f"creating attributes with the post-ops [{', '.join(map(str, post_ops))}]"
        super().__init__("primitive_attr", make("primitive_attr_create", doing=doing))
        functions = library().functions
        set_mode = functions["primitive_attr_set_scratchpad_mode"]
        check(set_mode(self, USER_SCRATCHPAD), doing)
        if multiplies:
            check(functions["primitive_attr_set_fpmath_mode"](self, math_mode()), doing)
        with Handle("post_ops", make("post_ops_create", doing=doing)) as chain:
            for op in post_ops:
                check(_append(functions, chain, op), doing)
            set_chain = functions["primitive_attr_set_post_ops"]
            check(set_chain(self, chain), doing)


def _append(functions: dict[str, Any], chain: Handle, op: PostOp) -> int:
    if isinstance(op, Binary):
        status = functions["post_ops_append_binary"](chain, op.algorithm, op.other)
    elif isinstance(op, Slopes):
        status = functions["post_ops_append_prelu"](chain, op.mask)
    else:
        append = functions["post_ops_append_eltwise"]
        status = append(chain, op.algorithm, op.alpha, op.beta)
    return int(status)


def operand(position: int, op: Binary | Slopes) -> int:
    """Return the number of the argument that the post-op at this index reads."""
    which = Arg.OTHER if isinstance(op, Binary) else Arg.WEIGHTS
    return POST_OP_BASE * (position + 1) | which


class PrimitiveDesc(Handle):
    """A primitive before it is compiled, with the layouts that it chose.

    Args:
        function: Name of its creating function, without `dnnl_` and `_primitive_desc_create`.
        arguments: Arguments of the function, without the first.
        description: Kind, types, shapes and params, for errors.

    Attributes:
        threads: Number of threads that it is described for.
        fewer: The same for the threads that are left under contention; None if that is not
            watched, see `threads.fewer_threads`. It stays open when this one is closed.

    Raises:
        BackendError: The library has no such primitive; the message has the description.
    """

    __slots__ = ("description", "fewer", "threads")

    def __init__(self, function: str, *arguments: Any, description: str) -> None:
        self.description = description
        self.threads = current_threads()
        self.fewer: PrimitiveDesc | None = None
        pointer = make(f"{function}_primitive_desc_create", *arguments, doing=description)
        super().__init__("primitive_desc", pointer)
        if fewer := fewer_threads(self.threads):
            with threads(fewer):
                self.fewer = PrimitiveDesc(function, *arguments, description=description)

    @property
    def implementation(self) -> str:
        """Name of the implementation that oneDNN chose."""
        name = c_char_p()
        ask = library().functions["primitive_desc_query"]
        status = ask(self, Query.IMPLEMENTATION, 0, ctypes.byref(name))
        check(status, f"querying the implementation of {self.description}")
        return (name.value or b"").decode()

    def desc(self, arg: int) -> MemoryDesc:
        """Return the descriptor of an argument: an `Arg`, or a result of `operand`."""
        ask = library().functions["primitive_desc_query_md"]
        return MemoryDesc.copy_of(ask(self, Query.ARGUMENT, arg))


class Primitive(Handle):
    """A compiled computation, which several threads may execute at once.

    Args:
        desc: Its descriptor.
        fixed_threads: Whether it is executed by as many threads as it was described with, for kinds
            that divide some of their work at execution. A primitive described with one thread
            always is.

    Attributes:
        description: Description of its descriptor.
        threads: Number of threads that execute it; 0 is the calling thread's current number.
        scratchpad: Descriptor of the memory it needs during execution; 0 bytes if none.
    """

    __slots__ = ("_fewer", "description", "generation", "scratchpad", "threads")

    def __init__(self, desc: PrimitiveDesc, *, fixed_threads: bool = False) -> None:
        self.generation = GENERATION.number
        self.description = desc.description
        self._fewer: PrimitiveDesc | Primitive | None = None if fixed_threads else desc.fewer
        self.threads = desc.threads if fixed_threads or desc.threads == 1 else 0
        self.scratchpad = desc.desc(Arg.SCRATCHPAD)
        # the library caches compiled primitives by description and number of threads, and reads
        # that number at creation: with another one than at description, it would return this
        # primitive for a later description
        with threads(desc.threads):
            pointer = make("primitive_create", desc, doing=desc.description)
        super().__init__("primitive", pointer)

    def bind(
        self, addresses: Addresses, release_gil: ReleaseGil = ReleaseGil.AUTO
    ) -> BoundPrimitive:
        """Return the call that executes it on these addresses.

        Args:
            addresses: Descriptor and address of each argument. If the scratchpad is missing, as
                outside a plan, the call allocates one.
            release_gil: When other Python threads may run during the call.
        """
        kept = None
        if self.scratchpad.nbytes and Arg.SCRATCHPAD not in addresses:
            kept = aligned_empty(self.scratchpad.nbytes)
            addresses = addresses | {Arg.SCRATCHPAD: (self.scratchpad, int(kept.ctypes.data))}
        memories = {arg: Memory(desc, address) for arg, (desc, address) in addresses.items()}
        return BoundPrimitive(self, memories, release_gil, kept)

    @property
    def has_fewer(self) -> bool:
        """True if it can perhaps be executed by fewer threads."""
        return self._fewer is not None

    def with_fewer_threads(self, descs: Mapping[int, MemoryDesc]) -> Primitive | None:
        """Return the primitive for fewer threads, compiled at the first call.

        Args:
            descs: Descriptors of the arguments.

        Returns:
            The primitive; None if it expects other layouts or needs a larger scratchpad.
        """
        found = self._fewer  # which another thread may replace meanwhile
        if isinstance(found, PrimitiveDesc):
            fits = found.desc(Arg.SCRATCHPAD).nbytes <= self.scratchpad.nbytes and all(
                found.desc(arg) == desc
                for arg, desc in descs.items()
                if arg != Arg.SCRATCHPAD and arg < POST_OP_BASE  # the attributes describe those
            )
            found = self._fewer = Primitive(found, fixed_threads=True) if fits else None
        return found


class BoundPrimitive:
    """A primitive with its memories and a stream, which can be called any number of times.

    Not for two threads at once. The bytes of the memories must outlive it.
    """

    __slots__ = (
        "_alone",
        "_fewer",
        "_generation",
        "_get_threads",
        "_has_fewer",
        "_kept",
        "_memories",
        "_primitive",
        "_release_gil",
        "_set_threads",
        "_shared",
        "_shortest",
        "_threads",
        "_trials",
    )

    def __init__(
        self,
        primitive: Primitive,
        memories: dict[int, Memory],
        release_gil: ReleaseGil,
        kept: object = None,
    ) -> None:
        self._memories = memories
        stream = Stream()
        arguments = (ExecArg * len(memories))()
        for slot, (arg, memory) in zip(arguments, memories.items(), strict=True):
            slot.arg, slot.memory = arg, memory.address
        self._primitive = primitive
        self._threads = primitive.threads
        self._fewer: BoundPrimitive | None = None
        self._has_fewer = primitive.has_fewer
        self._release_gil = release_gil
        found = library()
        self._get_threads = found.get_threads or int  # without OpenMP there is no number to change
        self._set_threads = found.set_threads or set_threads
        self._kept = (stream, kept)
        self._generation = primitive.generation
        call = (
            c_void_p(primitive.address),
            c_void_p(stream.address),
            c_int(len(memories)),
            ctypes.cast(arguments, POINTER(ExecArg)),
        )
        functions = found.functions
        held, released = (
            functools.partial(functions[name], *call)
            for name in ("primitive_execute_held", "primitive_execute")
        )
        # used while no other session computes, and while one does
        self._alone = released if release_gil is ReleaseGil.ALWAYS else held
        self._shared = held if release_gil is ReleaseGil.NEVER else released
        self._trials = _TRIALS if release_gil is ReleaseGil.AUTO else 0
        self._shortest = float("inf")

    def memory(self, arg: int) -> Memory:
        """Return the memory of an argument."""
        return self._memories[arg]

    def __call__(self) -> None:
        """Execute it and wait: a CPU stream runs nothing in the background.

        Raises:
            BackendError: It failed, or was prepared before the process was forked; with the
                primitive's description.
        """
        if self._generation != GENERATION.number:
            raise BackendError(
                "the process was forked after this was prepared; a fork copies no threads",
                where=self._primitive.description,
                hint="prepare it in the new process, or use the start method 'spawn'",
            )
        own = TEAM.own
        if self._has_fewer and TEAM.is_reduced and (fewer := self._for_fewer_threads()):
            fewer()
            return
        if self._get_threads() != (wanted := self._threads or own):
            (self._set_threads if own else set_threads)(wanted)
        execute = self._alone if len(ACTIVE) < 2 else self._shared
        status = self._timed(execute) if self._trials else execute()
        if status:
            raise failure(status, f"executing {self._primitive.description}")

    def _for_fewer_threads(self) -> BoundPrimitive | None:
        """Return the call of the primitive for fewer threads on the same memories, or None."""
        if self._fewer is None:
            descs = {arg: memory.desc for arg, memory in self._memories.items()}
            primitive = self._primitive.with_fewer_threads(descs)
            self._has_fewer = primitive is not None
            if primitive is not None:
                self._fewer = BoundPrimitive(
                    primitive, self._memories, self._release_gil, self._kept
                )
        return self._fewer

    def _timed(self, execute: Callable[[], int]) -> int:
        """Execute it and measure the time; the shortest of a few decides whether it is long."""
        start = time.perf_counter()
        status = execute()
        self._shortest = min(self._shortest, time.perf_counter() - start)
        self._trials -= 1
        if not self._trials and self._shortest > _LONG_S:
            self._alone = self._shared
        return status


def reorder_primitive(source: MemoryDesc, target: MemoryDesc) -> Primitive:
    """Create the primitive that copies from one layout into another.

    Raises:
        BackendError: The descriptors differ in more than their layout.
    """
    processor = engine()
    with (
        Attributes() as attributes,
        PrimitiveDesc(
            "reorder",
            source,
            processor,
            target,
            processor,
            attributes,
            description=f"a reorder from {source.key} to {target.key}",
        ) as desc,
    ):
        return Primitive(desc)
