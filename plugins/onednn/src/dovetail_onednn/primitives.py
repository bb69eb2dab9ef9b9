"""Primitives: computations that are compiled once and executed on any addresses.

A primitive is created from a `Description`, which is data, so that one read from an image is
created like a new one. The caller provides the scratchpad of every primitive: if the library
allocates it, oneDNN 3.2 crashes when a primitive created in one thread is executed in another.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping
from ctypes import c_char_p, c_void_p
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dovetail.container import aligned_empty
from dovetail_onednn._api import SCALES, ZERO_POINTS, Arg, DataType, Query
from dovetail_onednn._library import library
from dovetail_onednn.attributes import REAL, Attributes, PostOp, Quantization, is_operand
from dovetail_onednn.bound_primitive import BoundPrimitive
from dovetail_onednn.descriptors import Choice, Memory, MemoryDesc, array
from dovetail_onednn.errors import check
from dovetail_onednn.fork import GENERATION
from dovetail_onednn.handles import Handle, engine, make
from dovetail_onednn.threads import ReleaseGil, current_threads, fewer_threads, threads

ENGINE = "engine"  # in place of the engine, among the arguments of a description
Given = int | float | str | tuple[int, ...] | MemoryDesc | tuple[MemoryDesc, ...] | None
Addresses = dict[int, tuple[MemoryDesc, int]]  # descriptor and address by argument


@dataclass(frozen=True, slots=True)
class Description:
    """Everything that a primitive is created from, as data.

    Attributes:
        function: Name of its creating function, without `dnnl_` and `_primitive_desc_create`.
        arguments: Arguments of the function, without the first, the result, and the last, the
            attributes. `ENGINE` is the engine, a tuple of numbers is a list of sizes.
        text: Returns kind, types, shapes and params, for errors.
        post_ops: Functions of the result.
        math_mode: As for `Attributes`.
        fixed_threads: Whether it is executed by as many threads as it was described with, for kinds
            that divide some of their work at execution. A primitive described with one thread
            always is.
        quantization: Arguments with scales and zero points.
    """

    function: str
    arguments: tuple[Given, ...]
    text: Callable[[], str] = field(compare=False)
    post_ops: tuple[PostOp, ...] = ()
    math_mode: int = 0
    fixed_threads: bool = False
    quantization: Quantization = REAL


class Described(NamedTuple):
    """A description for a number of threads; 0 where that is not known."""

    description: Description
    threads: int


class PrimitiveDesc(Handle):
    """A primitive before it is compiled, with the layouts that it chose.

    Args:
        description: What it is created from, for the calling thread's number of threads.

    Attributes:
        described: The description and the number of threads.

    Raises:
        BackendError: The library has no such primitive; the message has the description.
    """

    __slots__ = ("_descs", "described")

    def __init__(self, description: Description) -> None:
        self.described = Described(description, current_threads())
        self._descs: dict[int, MemoryDesc] = {}
        function = f"{description.function}_primitive_desc_create"
        with Attributes(
            description.post_ops, description.math_mode, description.quantization
        ) as attributes:
            arguments = map(_argument, description.arguments)
            found = make(function, *arguments, attributes, doing=description.text)
        super().__init__("primitive_desc", found)

    @property
    def implementation(self) -> str:
        """Name of the implementation that oneDNN chose."""
        name = c_char_p()
        ask = library().functions["primitive_desc_query"]
        if status := ask(self, Query.IMPLEMENTATION, 0, ctypes.byref(name)):
            check(status, f"querying the implementation of {self.described.description.text()}")
        return (name.value or b"").decode()

    def desc(self, arg: int) -> MemoryDesc:
        """Return the descriptor of an argument: an `Arg`, or a result of `operand`.

        Scales and zero points, whose numbers are those of `Arg` plus a base, are vectors.
        """
        found = self._descs.get(arg)
        if found is None:
            mask = self.described.description.quantization.mask(arg)
            found = self._chosen(arg) if mask is None else self._numbers(arg, mask)
            self._descs[arg] = found
        return found

    def _chosen(self, arg: int) -> MemoryDesc:
        pointer = library().functions["primitive_desc_query_md"](self, Query.ARGUMENT, arg)
        return MemoryDesc.chosen(pointer, Choice(self.described, arg))

    def _numbers(self, arg: int, mask: int) -> MemoryDesc:
        dims = self.desc(arg & ~(SCALES | ZERO_POINTS)).dims
        count = math.prod(size for axis, size in enumerate(dims) if mask >> axis & 1)
        kind = DataType.F32 if arg & SCALES else DataType.S32
        return MemoryDesc.strided((count,), (1,), kind)


class Primitive(Handle):
    """A compiled computation, which several threads may execute at once.

    Args:
        desc: Its descriptor.

    Attributes:
        described: Its description, and the number of threads for it.
        threads: Number of threads that execute it; 0 is the calling thread's current number.
        scratchpad: Descriptor of the memory it needs during execution; 0 bytes if none.
    """

    __slots__ = ("_fewer", "_fewer_threads", "described", "generation", "scratchpad", "threads")

    def __init__(self, desc: PrimitiveDesc) -> None:
        self.generation = GENERATION.number
        self.described = description, count = desc.described
        is_fixed = description.fixed_threads
        self._fewer_threads = 0 if is_fixed else fewer_threads(count)
        self._fewer: Primitive | None = None
        self.threads = count if is_fixed or count == 1 else 0
        self.scratchpad = desc.desc(Arg.SCRATCHPAD)
        # the library caches compiled primitives by description and number of threads, and reads
        # that number at creation: with another one than at description, it would return this
        # primitive for a later description
        with threads(count):
            found = make("primitive_create", desc, doing=description.text)
        super().__init__("primitive", found)

    @property
    def text(self) -> str:
        """Its description for errors."""
        return self.described.description.text()

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

    def desc(self, arg: int) -> MemoryDesc:
        """Return the descriptor of an argument: an `Arg`."""
        owned = c_void_p()
        functions = library().functions
        status = functions["primitive_get_primitive_desc"](self, ctypes.byref(owned))
        check(status, f"querying {self.text}")
        pointer = functions["primitive_desc_query_md"](owned, Query.ARGUMENT, arg)
        return MemoryDesc.chosen(pointer, Choice(self.described, arg))

    @property
    def has_fewer(self) -> bool:
        """True if it can perhaps be executed by the threads that are left under contention."""
        return self._fewer_threads > 0

    def with_fewer_threads(self, descs: Mapping[int, MemoryDesc]) -> Primitive | None:
        """Return the primitive for fewer threads, compiled at the first call.

        Args:
            descs: Descriptors of the arguments.

        Returns:
            The primitive; None if it expects other layouts or needs a larger scratchpad.
        """
        count = self._fewer_threads  # other threads may change both meanwhile
        if self._fewer is None and count:
            description = self.described.description
            with threads(count), PrimitiveDesc(description) as found:
                fits = found.desc(Arg.SCRATCHPAD).nbytes <= self.scratchpad.nbytes and all(
                    found.desc(arg) == desc
                    for arg, desc in descs.items()
                    if arg != Arg.SCRATCHPAD and not is_operand(arg)
                )
                if fits:
                    fewer = Primitive(found)
                    fewer.threads, fewer._fewer_threads = found.described.threads, 0
                    self._fewer = fewer  # once complete: another thread may execute it at once
                else:
                    self._fewer_threads = 0
        return self._fewer


def reorder_primitive(source: MemoryDesc, target: MemoryDesc) -> Primitive:
    """Create the primitive that copies from one layout into another.

    Raises:
        BackendError: The descriptors differ in more than their layout.
    """
    with PrimitiveDesc(reorder_description(source, target)) as desc:
        return Primitive(desc)


def reorder_description(
    source: MemoryDesc, target: MemoryDesc, quantization: Quantization = REAL
) -> Description:
    """Describe a copy from one layout into another."""
    return Description(
        "reorder",
        (source, ENGINE, target, ENGINE),
        lambda: f"a reorder from {source.key} to {target.key}",
        quantization=quantization,
    )


def _argument(given: Given) -> Any:
    """Return an argument of a description as the library's function expects it."""
    if isinstance(given, MemoryDesc):
        return given.address
    if isinstance(given, str):
        return engine()
    if not isinstance(given, tuple):
        return given
    descs = [each for each in given if isinstance(each, MemoryDesc)]
    if descs:
        return (c_void_p * len(descs))(*(each.address for each in descs))
    return array([each for each in given if isinstance(each, int)])
