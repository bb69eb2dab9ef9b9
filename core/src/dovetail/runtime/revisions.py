"""Revisions of graphs: how their updateable tensors differ from those they were prepared with."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from dovetail import ir
from dovetail.runtime.updates import Update


class Revision:
    """The updateable tensors of a prepared graph that differ from its base.

    The base is the graph as it was when it was first finalized, or as it is in its context binary.
    """

    def __init__(self) -> None:
        self._now: dict[str, Update] = {}
        self._base: dict[str, Update] = {}
        self._tensors: dict[str, ir.Tensor] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tensors that differ, sorted."""
        return tuple(sorted(self._now))

    def note(self, before: Mapping[str, Update], updates: Mapping[str, Update]) -> None:
        """Record new values of tensors.

        Args:
            before: Their values until now, as far as they are known.
            updates: Their new values.
        """
        for name, update in updates.items():
            if name not in self._now and name in before:
                self._base[name] = before[name]
            self._now[name] = update
            if name in self._base and _is_same(self._base[name], update):
                del self._now[name]

    def note_section(self, before: Mapping[str, Update], tensors: Iterable[ir.Tensor]) -> None:
        """Record the tensors of a section; see `note`."""
        self._tensors = {tensor.name: tensor for tensor in tensors}
        self.note(before, {name: value_of(tensor) for name, tensor in self._tensors.items()})

    def clear(self) -> None:
        """Forget all differences: the graph is as in its base again."""
        self._now, self._tensors = {}, {}

    def state(self) -> tuple[Mapping[str, Any], ...]:
        """Return its state, for `return_to`."""
        return dict(self._now), dict(self._base), dict(self._tensors)

    def return_to(self, state: tuple[Mapping[str, Any], ...]) -> None:
        """Return to an earlier state."""
        now, base, tensors = state
        self._now, self._base, self._tensors = dict(now), dict(base), dict(tensors)

    def load(self, graph: ir.Graph) -> None:
        """Assign the tensors of the revision to the graph, which is loaded late."""
        tensors = graph.tensors.values()
        self._base = {t.name: value_of(t) for t in tensors if t.kind.is_updateable}
        for name, update in self._now.items():
            tensor = graph.tensors[name]
            tensor.data, tensor.encoding = update.data, update.encoding

    def base_of(self, tensor: ir.Tensor) -> Update:
        """Return the data and the encoding of a tensor of the graph in the base."""
        present = value_of(tensor)
        return self._base.get(tensor.name, present) if tensor.name in self._now else present

    def base(self, names: Collection[str]) -> dict[str, Update]:
        """Return the values of tensors in the base."""
        return {name: self._base[name] for name in names}

    def section_tensors(self) -> tuple[ir.Tensor, ...]:
        """Return the tensors of the last section that differ from the base."""
        return tuple(self._tensors[name] for name in self.names)


def value_of(tensor: ir.Tensor) -> Update:
    """Return the data and the encoding of a tensor."""
    return Update(tensor.data, tensor.encoding)


def _is_same(one: Update, other: Update) -> bool:
    """Return whether two updates have the same bytes and encodings."""
    if one.encoding != other.encoding or (one.data is None) != (other.data is None):
        return False
    if one.data is None or other.data is None or one.data is other.data:
        return True
    return one.data.nbytes == other.data.nbytes and one.data.hash == other.data.hash
