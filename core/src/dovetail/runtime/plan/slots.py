"""Slots: forms of updateable tensors, which an update computes again, in place."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from dovetail.container import FormKey, MakeForm, aligned_copy
from dovetail.errors import BackendError
from dovetail.ir import Array, Tensor
from dovetail.runtime.plan.spaces import Space, uploaded


class Slot:
    """A form of tensors some of which are updateable, in an array of the graph's own.

    Args:
        inputs: The tensors; None for omitted ones.
        form: Name of the form.
        make: Returns the form.
        space: The memory space of the form; None is the host's.

    Attributes:
        inputs: Names of the tensors; empty for omitted ones.
        form: Name of the form.
        space: The same.
        data: The form, changed by updates only: C-contiguous and aligned, or a block of the space.
        key: None: it is in no store.
    """

    key: FormKey | None = None

    def __init__(
        self,
        inputs: Sequence[Tensor | None],
        form: str,
        make: MakeForm,
        space: Space | None = None,
    ) -> None:
        self.inputs = tuple("" if tensor is None else tensor.name for tensor in inputs)
        self.form = form
        self._tensors: tuple[Tensor | None, ...] = tuple(inputs)
        self._make: MakeForm | None = make
        self._keep(self.computed(), space)

    @classmethod
    def restored(cls, inputs: Sequence[str], form: str, data: Array) -> Slot:
        """Return a slot without its maker."""
        slot = cls.__new__(cls)
        slot.inputs, slot.form = tuple(inputs), form
        slot._tensors, slot._make = (), None
        slot._keep(data, None)
        return slot

    def _keep(self, data: Array, space: Space | None) -> None:
        self.space = space
        self.data: Any = aligned_copy(data) if space is None else uploaded(space, data)
        self._dtype, self._shape = data.dtype, data.shape

    def move(self, space: Space | None) -> None:
        """Keep the form in a space from now on."""
        if space is not self.space:
            self._keep(self.to_host(), space)

    def to_host(self) -> Array:
        """Return the form as an array, which an update may change later."""
        if self.space is None:
            found: Array = self.data
            return found
        return self.data.to_host().view(self._dtype).reshape(self._shape)  # type: ignore[no-any-return]

    @property
    def has_maker(self) -> bool:
        """True if `computed` can compute the form."""
        return self._make is not None

    def adopt(self, inputs: Sequence[Tensor | None], make: MakeForm) -> None:
        """Use a maker: the kernel's, when it is called again."""
        self._tensors, self._make = tuple(inputs), make

    def reads(self, names: Collection[str]) -> bool:
        """Return whether it depends on any of these tensors."""
        return any(name in names for name in self.inputs)

    def require_size(self, data: Array) -> None:
        """Check that data can replace the slot's.

        Raises:
            BackendError: The size differs.
        """
        if data.nbytes != self.data.nbytes:
            raise BackendError(
                f"the form of {', '.join(filter(None, self.inputs))} has {data.nbytes} bytes; "
                f"expected {self.data.nbytes}",
                code="TENSOR_ERROR_UNSUPPORTED_FEATURE",
            )

    def replace(self, data: Array) -> None:
        """Use other data of the same size; see `require_size`."""
        flat = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        if self.space is None:
            np.copyto(self.data.reshape(-1).view(np.uint8), flat)
        else:
            self.space.write(self.data, flat)

    def computed(self) -> Array:
        """Return the form of what its tensors are now."""
        if self._make is None:
            raise AssertionError(f"the slot {self.form} has no maker")
        arrays = [None if t is None or t.data is None else t.stored() for t in self._tensors]
        specs = [None if tensor is None else tensor.spec for tensor in self._tensors]
        return self._make(arrays, specs)
