"""The tensors of the model as far as they are known: constants, and tensors of the graph."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from msgspec.structs import replace

from dovetail.ir import Array, DType, Graph, Shape, Spec, Tensor, TensorKind
from dovetail.ir.storage import DeferredBlob
from dovetail_opset.importing.budget import Budget
from dovetail_opset.importing.constant import Constant, Value, owned
from dovetail_opset.importing.transposition import transposed_copy


class Values:
    """Values by their names in the model. Constants are loaded at the first request.

    Args:
        graph: The graph to which static tensors are added.
        budget: The limits of computation at import.
        load: Returns a constant that the model stores, None if no constant has the name.
        names: All names of tensors in the model.
        outputs: Names of the model's outputs.
        updateable: Names of the constants that become UPDATEABLE_STATIC tensors.

    Attributes:
        graph: The graph under construction.
        budget: As given.
    """

    def __init__(
        self,
        graph: Graph,
        budget: Budget,
        load: Callable[[str], Constant | None],
        names: Iterable[str],
        outputs: Iterable[str],
        updateable: Iterable[str] = (),
    ) -> None:
        self.graph = graph
        self.budget = budget
        self._load = load
        self._outputs = frozenset(outputs)
        self._reserved = set(names)
        self._updateable = frozenset(updateable)
        self._originals: dict[Tensor, Constant] = {}
        self._known: dict[str, Value] = {}
        self._packed: dict[Tensor, int] = {}
        self._statics: dict[tuple[Constant, Hashable], Tensor] = {}
        self._shared: dict[Hashable, Constant] = {}

    def get(self, name: str) -> Value | None:
        """Return a value; None if it is not known (yet).

        Raises:
            FrontendError: It is a constant that cannot be read.
            UnsupportedOpError: It is one of a type that cannot be converted.
        """
        found = self._known.get(name)
        if found is None and (stored := self._load(name)) is not None:
            found = self._updateable_tensor(stored) if name in self._updateable else stored
            self._known[name] = found
        return found

    def set(self, name: str, value: Value) -> None:
        """Store a value under its name."""
        self._known[name] = value

    def packed(self, value: Value) -> int | None:
        """Return the element type that a value has in the model if that is of 4 bits, else None."""
        return value.packed if isinstance(value, Constant) else self._packed.get(value)

    def as_packed(self, value: Value, code: int) -> Value:
        """Return a value that is stored in bytes as one of a 4-bit element type of the format."""
        if isinstance(value, Constant):
            return value if value.packed == code else replace(value, packed=code)
        self._packed[value] = code
        return value

    def shared(self, key: Hashable, make: Callable[[], Constant]) -> Constant:
        """Return the constant of a key; create it at the first request."""
        if key not in self._shared:
            self._shared[key] = make()
        return self._shared[key]

    def fresh(self, stem: str) -> str:
        """Return a name that begins with `stem` and is unused in the graph and the model."""
        name, count = stem, 1
        while name in self._reserved or name in self.graph.tensors or name in self._known:
            name, count = f"{stem}_{count}", count + 1
        return name

    def tensor(self, value: Value) -> Tensor:
        """Return a value as a tensor of the graph; a constant as a static tensor, created once."""
        if isinstance(value, Tensor):
            return value
        return self._static((value, "as it is"), value, lambda: value.values, None)

    def transposed(self, value: Constant, perm: Shape) -> Tensor:
        """Return a constant with permuted axes as a static tensor, created once."""
        if perm == tuple(range(len(perm))):
            return self.tensor(value)
        return self._static(
            (value, perm), value, lambda: transposed_copy(_present(value), perm), perm
        )

    def _updateable_tensor(self, value: Constant) -> Tensor:
        """Return a constant as an updateable tensor: its values are not known to importers."""
        made = self.tensor(value)
        made.kind = TensorKind.UPDATEABLE_STATIC
        self._originals[made] = value
        return made

    def rearranged(self, tensor: Tensor, perm: Shape) -> Tensor | None:
        """Return an updateable tensor with permuted axes, created once; None for other tensors."""
        value = self._originals.get(tensor)
        if value is None:
            return None
        made = self.transposed(value, perm)
        made.kind = TensorKind.UPDATEABLE_STATIC
        return made

    def unused_updateable(self) -> list[str]:
        """Return the names of updateable constants that are no tensors of the graph, sorted."""
        tensors = self.graph.tensors.values()
        return sorted(self._updateable - {t.source for t in tensors if t.kind.is_updateable})

    def derived(self, name: str, values: Array, dtype: DType, grid: Spec | None = None) -> Tensor:
        """Add a static tensor of computed values.

        Args:
            name: A stem for its name.
            values: Logical values.
            dtype: Their type.
            grid: Grid that the model stores them on, in their layout.
        """
        made = Tensor.static(self.fresh(name), owned(values), dtype)
        if grid is not None:
            self.graph.source_encodings[made.source] = grid
        return self.graph.add_tensor(made)

    def _static(
        self,
        key: tuple[Constant, Hashable],
        value: Constant,
        make: Callable[[], Array],
        perm: Shape | None,
    ) -> Tensor:
        if key not in self._statics:
            name = value.name
            if name in self._outputs:  # the graph's output of this name will be a copy
                name = self.fresh(f"{name}.value")
            elif name in self.graph.tensors:
                name = self.fresh(name)
            made = _static_tensor(name, value, make, perm)
            if value.grid is not None:
                self.graph.source_encodings[value.name] = value.grid
            self._statics[key] = self.graph.add_tensor(made)
        return self._statics[key]


def _static_tensor(
    name: str, value: Constant, make: Callable[[], Array], perm: Shape | None
) -> Tensor:
    """Return a static tensor of a constant's values in some layout.

    A layout of a mapped file is computed when it is used: the weights of a large model would
    otherwise take memory from the import on.
    """
    if value.stored is None:
        values = owned(make())
        return Tensor.static(name, values, value.dtype, source=value.name, source_perm=perm)
    shape = value.shape if perm is None else tuple(value.shape[axis] for axis in perm)
    data = value.stored
    if perm is not None:
        data = DeferredBlob(value.values.nbytes, make, value.stored)
    kind = TensorKind.STATIC
    return Tensor(name, value.dtype, shape, kind, data=data, source=value.name, source_perm=perm)


def _present(value: Constant) -> Array:
    """Return the values of a constant; raise if they are in a file that has changed."""
    if value.stored is None:
        return value.values
    return value.stored.bytes.view(value.values.dtype).reshape(value.values.shape)
