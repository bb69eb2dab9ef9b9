"""Restoring plans from data: no kernel is called for steps with recipes.

Nothing in an image can be trusted: numbers, sizes and offsets are checked, and faults end in a
`ContainerError` that names what is damaged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, TypeVar, cast

import msgspec
import numpy as np

from dovetail.container import HOST, FormKey, Packed, WeightStore, read_only
from dovetail.container.entries import load_graph, load_tensor
from dovetail.container.memory import machine_bytes
from dovetail.errors import BackendError, ContainerError, DovetailError
from dovetail.ir import Array, Blob, DType, Spec, Tensor
from dovetail.runtime.interface import Interface
from dovetail.runtime.plan.arena import Arena, alignment_of, padded
from dovetail.runtime.plan.builder import Group, Plan, Reorder
from dovetail.runtime.plan.images import (
    MADE_AGAIN,
    EndpointData,
    PlanData,
    SlotData,
    StepData,
    StoredForm,
    ValueData,
)
from dovetail.runtime.plan.lifetimes import check_memory
from dovetail.runtime.plan.recipes import Bind, Builders, RecipeError
from dovetail.runtime.plan.remaking import Remaker
from dovetail.runtime.plan.slots import Slot
from dovetail.runtime.plan.spaces import Space, uploaded
from dovetail.runtime.plan.values import Layout, Step, Storage, Value

T = TypeVar("T")
_APPLICATION = (Storage.INPUT, Storage.OUTPUT)
_MAX_RANK = 64  # NumPy's limit


class PlanReader:
    """Restores a plan: the `Source` of its builders.

    Args:
        data: The plan, of JSON types.
        blobs: The blobs of the image.
        builders: The builders of the engine's items and steps.
        weights: Forms of constants that were computed before.
        options: The backend's options.
        where: Image and graph, for errors.

    Raises:
        ContainerError: The data are not a plan.
    """

    def __init__(
        self,
        data: object,
        blobs: Mapping[str, Array],
        builders: Builders,
        weights: WeightStore,
        options: Any,
        where: str,
    ) -> None:
        try:
            self.data = msgspec.convert(data, PlanData)
        except msgspec.ValidationError as error:
            raise RecipeError(f"invalid plan: {error}", where=where) from error
        self._blobs = blobs
        self._builders = builders
        self._weights = weights
        self._options = options
        self._where = where
        self._items: list[Any] = []
        self._values: list[Value] = []
        self._forms: list[Packed] = []
        self._slots: list[Slot] = []
        self._placed: frozenset[Value] = frozenset()
        self._asked: set[Value] = set()  # by the builder of a step

    @property
    def options(self) -> Any:
        """The backend's options; see `Source`."""
        return self._options

    def plan(
        self, graph: str, reorder: Reorder | None, remaker: Remaker
    ) -> tuple[Plan, Arena, Interface]:
        """Return the plan, its arena and the graph's interface.

        Args:
            graph: Name of the graph.
            reorder: The engine's reorder, for watched runs.
            remaker: Makes steps without a recipe.

        Raises:
            ContainerError: The data are damaged, or of another graph.
        """
        with self.faults():
            return self._plan(graph, reorder, remaker)

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Raise a ContainerError for what fails because the data are damaged."""
        try:
            yield
        except ContainerError as error:
            error.where = error.where or self._where
            raise
        except BackendError as error:
            if error.code != BackendError.default_code:  # such as a model that is not available
                raise
            text = f"a step cannot be restored: {error.message}"
            raise RecipeError(text, where=self._where) from error
        except DovetailError:
            raise
        except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError) as error:
            raise RecipeError(f"a step cannot be restored: {error}", where=self._where) from error

    def _plan(
        self, graph: str, reorder: Reorder | None, remaker: Remaker
    ) -> tuple[Plan, Arena, Interface]:
        data = self.data
        self._forms = [self._form(each) for each in data.forms]
        self._slots = [self._slot(each) for each in data.slots]
        for builder, item in data.items:
            self._items.append(self._builders.build(builder, item, self))
        for each in data.values:
            self._values.append(self._value(each))
        arena = self._arena()
        inputs = self._endpoints(data.inputs, Storage.INPUT)
        outputs = self._endpoints(data.outputs, Storage.OUTPUT)
        where = f"{self._where}: updateable"
        updateable = [load_tensor(entry, self._entry_blobs, where) for entry in data.updateable]
        remaker.begin(data.model, self._slots, self._forms, updateable)
        if data.excerpt is not None:
            where = f"{self._where}: excerpt"
            excerpt = load_graph(data.excerpt, self._entry_blobs, where, is_part=True)
            remaker.use_excerpt(excerpt, data.made_again)
        for tensor in inputs:
            remaker.written(tensor.name, None)
        steps, groups = [], []
        for recorded in data.steps:
            step, group = self._step(recorded, remaker)
            steps.append(step)
            groups.append(group)
        plan = Plan(
            tuple(steps),
            {t.name: value for t, value in inputs.items()},
            {t.name: value for t, value in outputs.items()},
            reorder,
            tuple(groups),
            tuple(self._slots),
            tuple(self._forms),
        )
        check_memory(plan, arena)
        return plan, arena, Interface.of(graph, inputs, outputs)

    # -- Source ----------------------------------------------------------------------------------

    def value(self, number: int) -> Value:
        """Return a value; see `Source`."""
        found = _at(self._values, number, "value")
        self._asked.add(found)
        return found

    def item(self, number: int, kind: type[T]) -> T:
        """Return an item of a class; see `Source`."""
        found = _at(self._items, number, "item")
        if not isinstance(found, kind):
            raise RecipeError(f"item {number} is a {type(found).__name__}, not a {kind.__name__}")
        return found

    def bind(self, builder: str, data: object) -> Bind:
        """Return a bind in another; see `Source`."""
        found = self._builders.build(builder, data, self)
        if not callable(found):
            raise RecipeError(f"'{builder}' builds no step")
        return cast("Bind", found)

    # -- inside ----------------------------------------------------------------------------------

    def _form(self, data: StoredForm) -> Packed:
        """Return a form that the store has computed, or else the image's.

        The image's is for this plan alone: nothing says that it was computed from the weights that
        its key names.
        """
        key, array = FormKey(*_fields(data.key)), read_only(self._array(data))
        found = self._weights.lookup(key)
        return found if found is not None and found.nbytes == array.nbytes else Packed(key, array)

    def _slot(self, data: SlotData) -> Slot:
        return Slot.restored(data.inputs, data.form, self._array(data))

    def _array(self, data: StoredForm | SlotData) -> Array:
        return self._blob(data.blob, Spec(data.dtype, data.shape))

    def _blob(self, key: str, spec: Spec) -> Array:
        """Return a blob as an array of this type and shape."""
        found = self._blobs.get(key)
        wanted = _dense_bytes(spec)
        if found is None:
            raise RecipeError(f"blob {key} not found")
        if found.nbytes != wanted:
            raise RecipeError(f"blob {key} has {found.nbytes} bytes; expected {wanted}")
        return found.view(spec.dtype.storage).reshape(spec.shape)

    def _value(self, data: ValueData) -> Value:
        spec = Spec(data.dtype, data.shape)
        if data.storage not in Storage.__members__:
            raise RecipeError(f"unknown storage '{data.storage}' of '{data.name}'")
        storage = Storage[data.storage]
        layout = None if data.layout is None else self.item(data.layout, object)
        if layout is not None and not _is_layout(layout):
            raise RecipeError(f"item {data.layout} is no layout")
        if layout is None:
            _dense_bytes(spec)
        value = Value(data.name, spec, storage, cast("Layout | None", layout), offset=data.offset)
        if data.alias is not None:
            value.alias_of = self.value(data.alias)
            if data.offset < 0 or data.offset + value.nbytes > value.alias_of.nbytes:
                raise RecipeError(f"'{data.name}' exceeds the value that it is a view of")
            if storage is not value.alias_of.storage and storage is not Storage.ARENA:
                raise RecipeError(f"'{data.name}' is a view of another storage")
        elif data.offset:
            raise RecipeError(f"'{data.name}' has an offset, but is no view")
        elif storage is Storage.CONSTANT:
            self._fill(value, data)
        elif storage in _APPLICATION and layout is not None:
            raise RecipeError(f"'{data.name}' has a layout, but is the application's")
        return value

    def _fill(self, value: Value, data: ValueData) -> None:
        """Set a constant's data."""
        if data.slot is not None:
            value.slot = _at(self._slots, data.slot, "slot")
            value.slot.move(value.space)
            value.array = value.slot.data
        elif data.form is not None:
            packed = _in_space(_at(self._forms, data.form, "form"), value.space)
            self._forms[data.form] = packed
            value.array, value.key = packed.data, packed.key
        elif data.blob is not None:
            array = self._blob(
                data.blob,
                value.spec if value.layout is None else Spec(DType.UINT_8, (value.nbytes,)),
            )
            value.array = array if value.space is None else uploaded(value.space, array)
        if value.array is None or value.array.nbytes != value.nbytes:
            raise RecipeError(f"the data of '{data.name}' do not have {value.nbytes} bytes")

    def _arena(self) -> Arena:
        offsets: dict[Value, int] = {}
        for number, at in self.data.offsets:
            value = self.value(number)
            if at < 0 or at % alignment_of(value.space):
                raise RecipeError(f"'{value.name}' has the impossible offset {at} in the arena")
            if value.storage is not Storage.ARENA or value.alias_of is not None:
                raise RecipeError(f"'{value.name}' owns no bytes of the arena")
            offsets[value] = at
        arena = Arena(offsets)
        for space, size in arena.sizes.items():
            most = sum(padded(value) for value in offsets if value.space is space)
            if size > most:  # a gap, for which memory would be allocated
                raise RecipeError(f"impossible arena of {size} bytes for values of {most}")
        most_here = machine_bytes()
        if most_here is not None and arena.nbytes > most_here:
            raise RecipeError(
                f"the arena has {arena.nbytes} bytes, this machine {most_here} bytes of memory"
            )
        self._placed = frozenset(offsets)
        return arena

    def _endpoints(self, ends: Sequence[EndpointData], storage: Storage) -> dict[Tensor, Value]:
        found: dict[Tensor, Value] = {}
        for end in ends:
            value = self.value(end.value)
            if value.storage is not storage or value.alias_of is not None:
                raise RecipeError(f"'{value.name}' is not the application's")
            where = f"{self._where}, tensor {value.name}"
            tensor = load_tensor(end.tensor, self._entry_blobs, where)
            if (tensor.name, tensor.dtype, tensor.shape) != (
                value.name,
                value.spec.dtype,
                tuple(value.spec.shape),
            ):
                raise RecipeError(f"'{value.name}' differs from its tensor")
            value.spec = tensor.spec
            found[tensor] = value
        if len({tensor.name for tensor in found}) != len(found):
            raise RecipeError("two inputs or outputs have the same name")
        return found

    @cached_property
    def _entry_blobs(self) -> list[Blob]:
        if missing := [key for key in self.data.arrays if key not in self._blobs]:
            raise RecipeError(f"blob {missing[0]} not found")
        return [Blob(self._blobs[key]) for key in self.data.arrays]

    def _step(self, data: StepData, remaker: Remaker) -> tuple[Step, Group | None]:
        reads, writes, scratch = (
            tuple(map(self.value, numbers)) for numbers in (data.reads, data.writes, data.scratch)
        )
        for value in (*reads, *writes, *scratch):
            self._require_memory(value)
        if not data.nodes and len(reads) != len(writes):
            raise RecipeError("a reorder does not write as many values as it reads")
        group = Group(data.group, data.choice) if data.group else None
        if data.builder == MADE_AGAIN:
            if group is None:
                raise RecipeError("a step has neither a recipe nor nodes")
            step = remaker.restored(
                Step(data.nodes, reads, writes, _unbound, scratch, work=data.work), group
            )
        else:
            self._asked.clear()
            bind = self.bind(data.builder, data.data)
            for value in self._asked.difference(reads, writes, scratch):
                raise RecipeError(f"a step uses '{value.name}', which it does not declare")
            step = Step(data.nodes, reads, writes, bind, scratch, work=data.work)
        if group is not None:
            for value in writes:
                remaker.written(value.name, value.layout)
        return step, group

    def _require_memory(self, value: Value) -> None:
        root = value.root
        is_placed = root.storage is not Storage.ARENA or root in self._placed
        if not is_placed:
            raise RecipeError(f"'{value.name}' has no offset in the arena")


def _unbound(_: object) -> Any:
    raise AssertionError("a step that has not been made again is bound")


def _in_space(packed: Packed, space: Space | None) -> Packed:
    """Return a form in a memory space; those of an image are in the host's at first."""
    if packed.key.space != (HOST if space is None else space.name):
        raise RecipeError(f"a form in the memory space '{packed.key.space}'")
    if space is None or not isinstance(packed.data, np.ndarray):
        return packed
    return Packed(packed.key, uploaded(space, packed.data))


def _is_layout(item: object) -> bool:
    """Return whether an item has what a `Layout` has; its size is computed from untrusted data."""
    has_names = hasattr(item, "key") and hasattr(item, "space")
    return has_names and isinstance(getattr(item, "nbytes", None), int)


def _at(found: Sequence[T], number: int, what: str) -> T:
    if not 0 <= number < len(found):
        raise RecipeError(f"{what} {number} not found; there are {len(found)}")
    return found[number]


def _dense_bytes(spec: Spec) -> int:
    """Return the bytes of a dense value; raise if the shape is impossible."""
    if len(spec.shape) > _MAX_RANK or any(size < 0 for size in spec.shape):
        raise RecipeError(f"impossible shape {spec.shape}")
    if spec.dtype.bits == 0:
        raise RecipeError(f"a value of type {spec.dtype.name}")
    return math.prod(spec.shape) * spec.dtype.storage.itemsize


def _fields(data: Any) -> tuple[Any, ...]:
    return data.contents, data.form, data.space
