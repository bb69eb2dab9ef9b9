"""Memory spaces: the memory in which values are stored, the host's or a device's.

A layout names the space of its values; None is the host's memory, whose values are arrays. A value
of another space is a buffer of that space, opaque to core, and only steps look into it.
"""

from __future__ import annotations

from typing import Any, Protocol

from dovetail.ir import Array


class Block(Protocol):
    """Memory of a space."""

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""

    def to_host(self) -> Array:
        """Return a copy of its bytes, uint8 (nbytes,)."""


class Space(Protocol):
    """Memory of a device; hashable, compared by identity."""

    @property
    def name(self) -> str:
        """Its name, of which forms in a `WeightStore` have one each."""

    @property
    def alignment(self) -> int:
        """Alignment of values in a block, in bytes: a multiple of that of the host's arena."""

    def allocate(self, nbytes: int) -> Block:
        """Return a new block.

        Raises:
            BackendError: The device has not so much memory.
        """

    def write(self, block: Block, array: Array) -> None:
        """Copy the bytes of an array of the block's size into it, before anything runs."""

    def part(self, block: Block, offset: int, nbytes: int) -> Any:
        """Return part of a block as a buffer, as steps receive it."""

    def shared(self, given: Any) -> Block:
        """Return memory of the application as a block, for layouts that need no copy of it.

        Args:
            given: A C-contiguous array, or a token of registered memory.
        """


def uploaded(space: Space, array: Array) -> Block:
    """Return a new block with the bytes of an array."""
    block = space.allocate(array.nbytes)
    space.write(block, array)
    return block
