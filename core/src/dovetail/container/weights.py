"""WeightStore: forms derived from constants, computed once and shared by all graphs of a context.

Forms are packed, reordered, unpacked or dequantized weights, and constants of kernels.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast
from weakref import WeakValueDictionary

import msgspec
import numpy as np

from dovetail.container.memory import aligned_copy, read_only
from dovetail.ir import Array, Blob, DType, Encoding, Spec, Tensor

HOST = "host"
CONSTANT = "constant"

# Returns a form of the stored elements and specs of its inputs; None for omitted ones.
MakeForm = Callable[[Sequence[Array | None], Sequence[Spec | None]], Array]


class FormKey(NamedTuple):
    """Identity of a form.

    Attributes:
        contents: For each input its SHA-256, type, shape and encoding; empty for an omitted one.
        form: Name of the form: kernel, geometry, fingerprint of the library, and all else that it
            depends on.
        space: Memory space of the form.
    """

    contents: tuple[str, ...]
    form: str
    space: str = HOST

    @classmethod
    def of(cls, inputs: Sequence[Tensor | None], form: str, space: str = HOST) -> FormKey:
        """Return the key of a form of tensors with data; None for omitted ones.

        Raises:
            ValueError: None of them has data.
        """
        if not any(tensor is not None and tensor.data is not None for tensor in inputs):
            raise ValueError(f"no input of the form '{form}' has data")
        return cls(tuple(map(_content, inputs)), form, space)

    @classmethod
    def of_constant(cls, array: Array) -> FormKey:
        """Return the key of a constant that does not depend on tensors."""
        digest = hashlib.sha256(array.tobytes()).hexdigest()
        return cls((_described(digest, DType.of(array.dtype), array.shape, None),), CONSTANT)


class Packed(NamedTuple):
    """A form in a store.

    Attributes:
        key: Its identity.
        data: The form: in the space `host` an array, read-only, C-contiguous and aligned to 64
            bytes. In other spaces it has the attribute `nbytes` and the method `to_host`, which
            returns an array.
    """

    key: FormKey
    data: Any

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return int(self.data.nbytes)

    def to_host(self) -> Array:
        """Return the form's bytes in host memory."""
        found: Array = self.data if self.key.space == HOST else self.data.to_host()
        return found


class WeightStore:
    """Forms of constants by content. Threads may share it.

    Graphs with equal weights share one form, even if these are in different blobs. A store holds
    only what it computed: a form from elsewhere might be of other weights than its key says.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held: dict[FormKey, Any] = {}
        # The forms of this store and its siblings; one is removed when none of them holds it.
        self._pool: WeakValueDictionary[FormKey, Any] = WeakValueDictionary()
        # One lock for each form being computed: that is slow and must not delay other forms.
        # Reentrant, so that a `make` that asks for its own result fails instead of waiting
        # forever.
        self._making: dict[FormKey, threading.RLock] = {}

    def sibling(self) -> WeightStore:
        """Return an empty store that shares the forms of this one and its siblings.

        A form lives as long as any store that holds it.
        """
        sibling = WeightStore()
        sibling._pool = self._pool
        return sibling

    def packed(
        self,
        inputs: Sequence[Tensor | None],
        form: str,
        make: Callable[[Sequence[Array | None], Sequence[Spec | None]], Any],
        *,
        space: str = HOST,
    ) -> Packed:
        """Return a form of constant tensors; compute it at the first call.

        Args:
            inputs: The tensors; None for omitted ones.
            form: See `FormKey`.
            make: Returns the form; in the space `host` an array of any shape and type, which is
                copied if it is not C-contiguous and aligned or is a view of a mapped file. After a
                failure the next call tries again.
            space: The memory space.
        """
        key = FormKey.of(inputs, form, space)
        blobs = [t.data for t in inputs if t is not None and t.data is not None]

        def made() -> Any:
            arrays = [_elements(tensor) for tensor in inputs]
            specs = [None if tensor is None else tensor.spec for tensor in inputs]
            with np.errstate(all="ignore"):  # inf and NaN are valid weights
                result = make(arrays, specs)
            settled = _settled(result, blobs) if space == HOST else result
            for blob in blobs:
                blob.release()  # or the weights would be in memory twice
            return settled

        return Packed(key, self._get(key, made))

    def constant(
        self,
        array: Array,
        *,
        space: str = HOST,
        make: Callable[[Array], Any] = lambda array: _settled(array, ()),
    ) -> Packed:
        """Return an array that a kernel computed from something other than tensors.

        Args:
            array: The array.
            space: The memory space of the form.
            make: Returns the form in that space.
        """
        key = FormKey.of_constant(array)._replace(space=space)
        return Packed(key, self._get(key, lambda: make(array)))

    def lookup(self, key: FormKey) -> Packed | None:
        """Return a form that this store or a sibling has computed, or None."""
        found = self._held.get(key)
        if found is None:
            found = self._pool.get(key)
        return None if found is None else Packed(key, found)

    @property
    def forms(self) -> tuple[Packed, ...]:
        """All forms in the store, sorted by key."""
        with self._guard:
            held = sorted(self._held.items(), key=lambda item: item[0])
        return tuple(Packed(key, data) for key, data in held)

    @property
    def nbytes(self) -> int:
        """Bytes of all forms in the store."""
        return sum(packed.nbytes for packed in self.forms)

    def _get(self, key: FormKey, make: Callable[[], Any]) -> Any:
        with self._guard:
            held = self._held.get(key)
            if held is not None:
                return held
            making = self._making.setdefault(key, threading.RLock())
        with making:
            # another thread may have computed it while this one waited
            held = self._held.get(key)
            if held is None:
                held = self._pool.get(key)
                if held is None:
                    held = make()
                with self._guard:
                    self._held[key] = held
                    self._pool[key] = held
                    self._making.pop(key, None)
            return held


def _content(tensor: Tensor | None) -> str:
    if tensor is None or tensor.data is None:
        return ""
    return _described(tensor.data.hash, tensor.dtype, tensor.shape, tensor.encoding)


def _described(digest: str, dtype: DType, shape: Sequence[int], encoding: Encoding | None) -> str:
    text = f"{digest} {dtype.name}{list(shape)}"
    return text if encoding is None else f"{text} {_encoding_text(encoding)}"


def _encoding_text(encoding: Encoding) -> str:
    """Return a text that encodings share if and only if they are equal."""
    parts = []
    for name in cast("msgspec.Struct", encoding).__struct_fields__:
        value = getattr(encoding, name)
        if isinstance(value, np.ndarray):
            digest = hashlib.sha256(value.tobytes()).hexdigest()
            value = f"{value.dtype}{list(value.shape)}:{digest}"
        parts.append(f"{name}={value}")
    return f"{type(encoding).__name__}({', '.join(parts)})"


def _elements(tensor: Tensor | None) -> Array | None:
    return None if tensor is None or tensor.data is None else tensor.stored()


def _settled(array: Array, plain: Sequence[Blob]) -> Array:
    """Return a form, aligned and read-only; a copy if it is a view of a mapped file."""
    is_mapped = any(b.guard is not None and np.may_share_memory(array, b.bytes) for b in plain)
    return read_only(aligned_copy(array) if is_mapped else array)
