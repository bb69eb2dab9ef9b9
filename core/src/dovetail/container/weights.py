"""WeightStore: prepacked weights, packed once and shared by all graphs of a context."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakValueDictionary

import numpy as np

from dovetail.container.memory import ALIGNMENT, aligned_empty
from dovetail.ir import Array, Blob


@dataclass(frozen=True, slots=True)
class Packed:
    """A prepacked form in a store.

    Attributes:
        hash: SHA-256 of the plain blob in hex.
        layout: Name of the form.
        data: The prepacked form; read-only.
    """

    hash: str
    layout: str
    data: Array

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.data.nbytes


class WeightStore:
    """Prepacked weights by content and layout. Threads may share it.

    Graphs with equal weights share one prepacked form, even if they are in different blobs.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held: dict[tuple[str, str], Array] = {}
        # The forms of this store and its siblings; one is removed when none of them holds it.
        self._pool: WeakValueDictionary[tuple[str, str], Array] = WeakValueDictionary()
        # One lock for each form being packed: packing is slow and must not delay other forms.
        # Reentrant, so that a `make` that asks for its own result fails instead of waiting
        # forever.
        self._making: dict[tuple[str, str], threading.RLock] = {}

    def sibling(self) -> WeightStore:
        """Return an empty store that shares the forms of this one and its siblings.

        A form lives as long as any store that has returned it.
        """
        sibling = WeightStore()
        sibling._pool = self._pool
        return sibling

    def get(self, blob: Blob, layout: str, make: Callable[[], Array]) -> Array:
        """Return the prepacked form of a blob; pack it at the first call.

        Args:
            blob: The plain weights.
            layout: Name of the form: kernel, geometry, library version, and all else that `make`
                depends on.
            make: Returns the packed array, of any shape and type. After a failure the next call
                tries again.

        Returns:
            The packed array, read-only, C-contiguous and aligned to 64 bytes; a copy if `make`
            returned another layout or a view of a mapped file.
        """
        key = (blob.hash, layout)
        with self._guard:
            held = self._held.get(key)
            if held is not None:
                return held
            making = self._making.setdefault(key, threading.RLock())
        with making:
            # another thread may have packed it while this one waited
            held = self._held.get(key)
            if held is None:
                held = self._pool.get(key)
                if held is None:
                    held = _settled(make(), blob)
                    blob.release()  # or the weights would be in memory twice
                with self._guard:
                    self._held[key] = held
                    self._pool[key] = held
                    self._making.pop(key, None)
            return held

    @property
    def packed(self) -> tuple[Packed, ...]:
        """All forms in the store, sorted by hash and layout."""
        with self._guard:
            held = sorted(self._held.items(), key=lambda item: item[0])
        return tuple(Packed(*key, data) for key, data in held)

    @property
    def nbytes(self) -> int:
        """Bytes of all forms in the store."""
        return sum(packed.nbytes for packed in self.packed)


def _settled(array: Array, plain: Blob) -> Array:
    """Return a packed form, aligned and read-only; a copy if it is a view of a mapped file."""
    is_mapped = plain.guard is not None and np.may_share_memory(array, plain.bytes)
    is_aligned = array.flags.c_contiguous and array.ctypes.data % ALIGNMENT == 0
    if is_aligned and not is_mapped:
        settled = array.view()
    else:
        settled = aligned_empty(array.nbytes).view(array.dtype).reshape(array.shape)
        np.copyto(settled, array)
    settled.flags.writeable = False
    return settled
