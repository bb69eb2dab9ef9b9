"""Slots: forms of updateable tensors, which an update computes again, in place."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from dovetail.container import FormKey, MakeForm, aligned_copy
from dovetail.errors import BackendError
from dovetail.ir import Array, Tensor


class Slot:
    """A form of tensors some of which are updateable, in an array of the graph's own.

    Args:
        inputs: The tensors; None for omitted ones.
        form: Name of the form.
        make: Returns the form.

    Attributes:
        inputs: Names of the tensors; empty for omitted ones.
        form: Name of the form.
        data: The form: C-contiguous and aligned, changed by updates only.
        key: None: it is in no store.
    """

    key: FormKey | None = None

    def __init__(self, inputs: Sequence[Tensor | None], form: str, make: MakeForm) -> None:
        self.inputs = tuple("" if tensor is None else tensor.name for tensor in inputs)
        self.form = form
        self._tensors: tuple[Tensor | None, ...] = tuple(inputs)
        self._make: MakeForm | None = make
        self.data: Array = aligned_copy(self.computed())

    @classmethod
    def restored(cls, inputs: Sequence[str], form: str, data: Array) -> Slot:
        """Return a slot without its maker."""
        slot = cls.__new__(cls)
        slot.inputs, slot.form, slot.data = tuple(inputs), form, aligned_copy(data)
        slot._tensors, slot._make = (), None
        return slot

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
        np.copyto(self.data.reshape(-1).view(np.uint8), flat)

    def computed(self) -> Array:
        """Return the form of what its tensors are now."""
        if self._make is None:
            raise AssertionError(f"the slot {self.form} has no maker")
        arrays = [None if t is None or t.data is None else t.stored() for t in self._tensors]
        specs = [None if tensor is None else tensor.spec for tensor in self._tensors]
        return self._make(arrays, specs)
